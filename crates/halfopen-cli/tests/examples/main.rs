//! Runs what stands in `examples/`, as a user would: real scripts, the real binary, a stand-in for the outside.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod sdk;
mod stub;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies two folders deep").to_path_buf()
}

/// A command in an empty environment: its own home and store, and a PATH on which `halfopen` is the one just built.
fn command(program: impl AsRef<std::ffi::OsStr>, home: &Path) -> Command {
    let built = Path::new(env!("CARGO_BIN_EXE_halfopen")).parent().expect("a binary lies in a folder");
    let path = format!("{}:{}:/usr/local/bin:/usr/bin:/bin", built.display(), home.join("bin").display());
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", home)
        .env("PATH", path)
        .env("HALFOPEN", env!("CARGO_BIN_EXE_halfopen"))
        .env("HALFOPEN_STORE", home.join("halfopen.db"))
        .stdin(Stdio::null());
    command
}

fn texts(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Puts an executable script named `name` on the PATH of `command`.
fn put_tool(home: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let bin = home.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join(name), script).unwrap();
    std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Four workers meet one limit: the first "retry after" holds all of them (only those already under way can be turned
/// away), all wait, and every note gets its summary.
#[test]
fn the_nightly_batch_ends_with_every_summary() {
    let home = tempfile::tempdir().unwrap();
    let (service, out) = (home.path().join("service"), home.path().join("summaries"));
    std::fs::create_dir_all(&service).unwrap();
    // The script makes a folder for its stand-in unless AGENT names another agent, so the agent is named here.
    let output = command(root().join("examples/nightly-batch.sh"), home.path())
        .args([root().join("examples/notes"), out.clone()])
        .env("AGENT", root().join("examples/stand-in/agent"))
        .env("STAND_IN_DIR", &service)
        .output()
        .unwrap();
    let said = texts(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("10 of 10 notes"), "{said}");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 10, "nothing but summaries is left behind");
    let log = std::fs::read_to_string(service.join("log")).unwrap();
    let refused = log.lines().filter(|line| *line == "refused").count();
    assert!((1..=4).contains(&refused), "{refused} calls were turned away, at most the 4 under way may be\n{said}");
}

/// The cron line runs as cron would run it, and prints nothing when all went well; its morning check exits with 0.
#[test]
fn the_cron_lines_run_quietly() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join("project")).unwrap();
    put_tool(home.path(), "claude", "#!/bin/sh\necho \"worked through: $2\"\n");
    let table = std::fs::read_to_string(root().join("examples/crontab")).unwrap();
    let jobs: Vec<&str> = table.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(jobs.len(), 2);
    for job in jobs {
        // Five fields of time, then the command line, as crontab(5) reads it.
        let line = job.splitn(6, char::is_whitespace).last().unwrap().trim();
        let output = command("/bin/sh", home.path()).args(["-c", line]).output().unwrap();
        assert!(output.status.success(), "{line}\n{}", texts(&output));
        if line.contains("claude") {
            assert_eq!(texts(&output).trim(), "", "a run that went well prints nothing");
        }
    }
    assert_eq!(
        std::fs::read_to_string(home.path().join("nightly.log")).unwrap(),
        "worked through: Work through TODO.md\n"
    );
    assert!(home.path().join("nightly.json").exists());
}

/// The scheduler's job does not sleep: the run says when, the job moves itself there, and then it is done.
#[test]
fn the_apscheduler_job_moves_itself_to_the_stated_time() {
    let python = python_with("apscheduler", &root().join("examples/requirements-apscheduler.txt"));
    let home = tempfile::tempdir().unwrap();
    let service = home.path().join("service");
    std::fs::create_dir_all(&service).unwrap();
    let policy = home.path().join("halfopen.yaml");
    std::fs::write(
        &policy,
        "dependency_guard:\n  name: agent\n  retry:\n    max_wait_sec: 0.5\n  circuit:\n    open_for_sec: 1\n",
    )
    .unwrap();
    let output = command(python, home.path())
        .arg(root().join("examples/apscheduler_job.py"))
        .arg(root().join("examples/stand-in/agent"))
        .env("HALFOPEN_POLICY", &policy)
        .env("STAND_IN_DIR", &service)
        .env("CALLS_PER_WINDOW", "0")
        .output()
        .unwrap();
    let said = texts(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("later: rate_limited, again at "), "{said}");
    assert!(said.contains("done: "), "{said}");
    assert_eq!(std::fs::read_to_string(service.join("log")).unwrap(), "call\nrefused\ncall\n", "{said}");
}

/// Returns a Python interpreter with these requirements, in an environment of its own that is made once and again when
/// they change. Tests are processes side by side; the first makes it and the others wait.
fn python_with(name: &str, requirements: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (venv, wanted) = (folder.join(name), std::fs::read_to_string(requirements).unwrap());
    let (python, ready) = (venv.join("bin/python"), venv.join("ready"));
    let lock = std::fs::File::create(folder.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    if std::fs::read_to_string(&ready).ok().as_ref() != Some(&wanted) {
        run("python3", &["-m", "venv", "--clear", &venv.display().to_string()]);
        let requirements = requirements.display().to_string();
        run(&python.display().to_string(), &["-m", "pip", "install", "--quiet", "-r", &requirements]);
        std::fs::write(&ready, wanted).unwrap();
    }
    python
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}\n{}", texts(&output));
}
