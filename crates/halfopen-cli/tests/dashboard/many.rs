//! Pages stay cheap when the store is full.

use crate::html::page;
use crate::ledger::{becomes, opens_for, queueing, send, store_file, word};
use crate::stub::Stub;
use crate::world::gateway;

/// How many finished jobs there are.
const FINISHED: i64 = 300_000;
/// How many jobs a page has.
const PAGE: usize = 50;

/// S194: a page of jobs shows what is on it and where the next one begins, and the counts are those that the store keeps.
/// That none of it looks at the other jobs, the store's own tests hold against the plans of its queries.
#[test]
fn a_list_is_paged_by_key_and_counted_by_the_store_however_many_are_finished() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing(&opens_for(600.0)));
    let answer = send(&gateway, "inv-0", &[("prefer", "respond-async")]);
    let id = word(&answer.json()["id"]);
    becomes(&gateway, &id, "done");
    gateway.failures("up", 1);
    if let Err(error) = copy(&store_file(&gateway)) {
        panic!("{error}");
    }
    let all = FINISHED + 1;
    let html = page(&gateway, "/ui/jobs?state=done");
    assert_eq!(html.matches("<tr id=\"j").count(), PAGE);
    assert!(html.contains(&format!("<b>{all}</b>")), "{html}");
    let mut seen = std::collections::BTreeSet::new();
    let mut target = "/ui/jobs?state=done".to_owned();
    for _ in 0..3 {
        let html = page(&gateway, &target);
        let rows = html.split("data-name=\"Job\"><a href=\"/ui/jobs/").skip(1);
        seen.extend(rows.filter_map(|row| row.split('"').next().map(str::to_owned)));
        let next = html.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next());
        target = next.unwrap_or_default().replace("&#38;", "&");
        assert!(target.starts_with("/ui/jobs?state=done&after=j"), "{target}");
    }
    assert_eq!(seen.len(), 3 * PAGE, "no job stands on two pages");
    let overview = page(&gateway, "/");
    assert!(overview.contains("class=\"badge open\"") && overview.contains(&format!("<b>{all}</b>")), "{overview}");
}

/// Puts copies of the finished job into the store.
fn copy(file: &std::path::Path) -> rusqlite::Result<()> {
    let conn = rusqlite::Connection::open(file)?;
    conn.busy_timeout(std::time::Duration::from_secs(20))?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    conn.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
         INSERT INTO jobs (seq, mark, lane, shelf, wake_at_ms, bytes, entries, form) \
         SELECT 1000 + i, mark, lane, shelf, wake_at_ms, bytes, 0, form FROM n, (SELECT * FROM jobs LIMIT 1)",
        [FINISHED],
    )?;
    conn.execute("UPDATE lanes SET done = done + ?1, accepted = accepted + ?1", [FINISHED])?;
    conn.execute_batch("COMMIT")
}
