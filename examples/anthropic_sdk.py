"""The official Anthropic SDK through halfopen. Only base_url is changed; everything else is the SDK as it comes.

    halfopen serve --policy examples/serve.yaml
    pip install -r examples/requirements-anthropic.txt
    ANTHROPIC_API_KEY=... python examples/anthropic_sdk.py "Say hello in one sentence."

halfopen waits out a rate limit, repeats what is safe to repeat, and breaks off when waiting does not help. Then the
SDK raises one exception, at once, and its body says when to come back.
"""

import os
import sys

from anthropic import Anthropic, APIError, APIStatusError

GATEWAY = os.environ.get("HALFOPEN_URL", "http://127.0.0.1:4141")

# This is the change; the SDK adds /v1/messages itself. ANTHROPIC_BASE_URL in the environment does the same to a
# program that you cannot edit.
client = Anthropic(base_url=f"{GATEWAY}/d/anthropic")

MODEL = "claude-haiku-4-5"
TRY_LATER = 75


def whole(question: str) -> str:
    messages = [{"role": "user", "content": question}]
    message = client.messages.create(model=MODEL, max_tokens=200, messages=messages)
    return "".join(block.text for block in message.content if block.type == "text")


def streamed(question: str) -> None:
    messages = [{"role": "user", "content": question}]
    with client.messages.stream(model=MODEL, max_tokens=200, messages=messages) as stream:
        for text in stream.text_stream:
            print(text, end="", flush=True)
    print()


def main() -> int:
    question = sys.argv[1] if len(sys.argv) > 1 else "Say hello in one sentence."
    try:
        print(whole(question))
        streamed(question)
    except APIStatusError as error:
        # A refusal by halfopen is told from an error of the API by this header; its body says more than the SDK's error.
        if error.response.headers.get("halfopen-outcome") == "refused":
            refusal = error.response.json()
            print(f"later: {refusal['reason']}, again at {refusal.get('retry_at', 'a time not known')}", file=sys.stderr)
            return TRY_LATER
        # An error event in the middle of a stream comes here too, with the status 200 that was sent long before.
        print(f"failed: {error}", file=sys.stderr)
        return 1
    except APIError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
