"""What people write today: a command under subprocess, retried by tenacity."""

import subprocess
import sys

from tenacity import retry, stop_after_attempt, wait_exponential


@retry(stop=stop_after_attempt(3), wait=wait_exponential(multiplier=0.1))
def call() -> None:
    subprocess.run(sys.argv[1:], check=True, timeout=10)


call()
