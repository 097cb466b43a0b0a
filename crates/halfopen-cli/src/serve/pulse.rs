//! Does what is due without anybody's call: lets time pass for circuits, and tidies the store.
//!
//! No breaker needs this loop to leave the open state; that follows from stored deadlines. What needs it is the journal:
//! a cooldown that is over is an event when it is over, not when the next caller comes.

use std::sync::Arc;
use std::time::Duration;

use halfopen::handle::StoreHealth;

use super::gateway::Gateway;
use crate::ui;

/// How often time passes for circuits that nobody calls.
const EVERY: Duration = Duration::from_secs(1);

/// Does what is due, once a second, for ever.
pub(super) async fn beat(gateway: Arc<Gateway>) {
    let mut beats = tokio::time::interval(EVERY);
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut health = gateway.door.handle.health();
    loop {
        beats.tick().await;
        let beaten = Arc::clone(&gateway);
        let swept = tokio::task::spawn_blocking(move || {
            // What cannot be written now is done by the next beat; health says why.
            let _ = beaten.door.handle.sweep(&|dependency| beaten.policy_of(dependency));
            beaten.door.handle.tidy();
            beaten.door.handle.health()
        });
        if let Ok(now) = swept.await {
            tell(&health, &now);
            health = now;
        }
    }
}

/// Says once that the store is lost or back.
fn tell(before: &StoreHealth, now: &StoreHealth) {
    match (before, now) {
        (before, now) if std::mem::discriminant(before) == std::mem::discriminant(now) => {}
        (_, StoreHealth::Good) => ui::say("the store is back; what was learned without it was handed over"),
        (_, StoreHealth::ReadOnly(why)) => ui::warn(&format!("the store can only be read: {why}")),
        (_, StoreHealth::Lost(why)) => ui::warn(&format!("the store is lost, circuits are kept in memory: {why}")),
    }
}
