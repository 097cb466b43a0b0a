//! SIGKILL at any moment leaves a store that can be read and goes on.

use std::time::Duration;

use halfopen::handle::StoreHealth;

use crate::sandbox::{BROKEN, Sandbox};

#[test]
fn a_kill_at_any_moment_leaves_a_readable_store() {
    let sandbox = Sandbox::new();
    sandbox
        .policy("retry: {base_ms: 1, max_attempts: 3}\ncircuit: {open_after_failures: 5, open_for_sec: 0.01}\non_open: {action: fail_fast, wait_sec: 0}")
        .tool(BROKEN);
    for n in 0..80_u64 {
        let mut child = sandbox.start(&[]);
        // The moment, not a wait: from before the store is opened until after it is settled.
        std::thread::sleep(Duration::from_micros(n * 700));
        let _ = child.kill();
        child.wait().expect("it ends");
        if n % 8 == 0 {
            let handle = sandbox.handle();
            handle
                .circuits(&|name| halfopen_core::policy::Policy::built_in(name, halfopen_core::policy::Surface::Run))
                .expect("it can be read");
            assert_eq!(handle.health(), StoreHealth::Good);
        }
    }
    sandbox.tool("echo well");
    let ran = sandbox.run(&["--max-wait", "40s"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "well\n"), "{}", ran.stderr);
}
