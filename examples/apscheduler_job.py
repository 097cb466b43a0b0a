"""An APScheduler job that calls a command through halfopen and reads the report.

    python examples/apscheduler_job.py [COMMAND ...]

A scheduler's worker must not sleep for hours, so the job lets halfopen say when the next try makes sense and moves
itself there: exit code 75 means "later", and the report carries the instant.
"""

import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone

from apscheduler.schedulers.blocking import BlockingScheduler

TRY_LATER = 75

scheduler = BlockingScheduler(timezone=timezone.utc)


def nightly(command: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report_file = os.path.join(folder, "report.json")
        done = subprocess.run(
            [os.environ.get("HALFOPEN", "halfopen"), "run", "--report", report_file, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        with open(report_file) as file:
            report = json.load(file)

    if done.returncode == TRY_LATER:
        at = retry_time(report)
        print(f"later: {report['class']}, again at {at.isoformat()}", flush=True)
        scheduler.add_job(nightly, "date", run_date=at, args=[command], id="nightly", replace_existing=True)
        return
    if done.returncode == 0:
        print(f"done: {done.stdout.strip()}", flush=True)
    else:
        print(f"failed: {report['class']} (exit {done.returncode})", flush=True)
    scheduler.shutdown(wait=False)


def retry_time(report: dict) -> datetime:
    if report.get("retry_at"):
        return datetime.fromisoformat(report["retry_at"].replace("Z", "+00:00"))
    return datetime.now(timezone.utc) + timedelta(minutes=10)


if __name__ == "__main__":
    arguments = sys.argv[1:] or ["claude", "-p", "Work through TODO.md"]
    scheduler.add_job(nightly, "date", args=[arguments], id="nightly")
    scheduler.start()
