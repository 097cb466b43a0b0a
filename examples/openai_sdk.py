"""The official OpenAI SDK through halfopen. Only base_url is changed; everything else is the SDK as it comes.

    halfopen serve --policy examples/serve.yaml
    pip install -r examples/requirements-openai.txt
    OPENAI_API_KEY=... python examples/openai_sdk.py "Say hello in one sentence."

halfopen waits out a rate limit, repeats what is safe to repeat, and breaks off when waiting does not help. Then the
SDK raises one exception, at once, and its body says when to come back.
"""

import os
import sys

from openai import APIError, APIStatusError, OpenAI

GATEWAY = os.environ.get("HALFOPEN_URL", "http://127.0.0.1:4141")

# This is the change. OPENAI_BASE_URL in the environment does the same to a program that you cannot edit.
client = OpenAI(base_url=f"{GATEWAY}/d/openai/v1")

MODEL = "gpt-5-mini"
TRY_LATER = 75


def whole(question: str) -> str:
    completion = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": question}])
    return completion.choices[0].message.content or ""


def streamed(question: str) -> None:
    messages = [{"role": "user", "content": question}]
    for chunk in client.chat.completions.create(model=MODEL, messages=messages, stream=True):
        if chunk.choices:
            print(chunk.choices[0].delta.content or "", end="", flush=True)
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
        print(f"failed: {error}", file=sys.stderr)
        return 1
    except APIError as error:
        # Among others an error event in the middle of a stream, where the status was 200 long before.
        print(f"failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
