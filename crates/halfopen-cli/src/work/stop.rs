//! How a worker ends: it claims no more and finishes what it holds; later it leaves that too.

use tokio::sync::watch;

/// How far a worker is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pace {
    /// It claims and performs.
    Working,
    /// It claims no more, and finishes what it holds.
    Finishing,
    /// It leaves what it holds.
    Leaving,
}

/// Tells a worker, and those who perform for it, to end. Clones speak of the same end.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Sender<Pace>);

impl Stop {
    /// Returns that of a worker that has just begun.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Pace::Working))
    }

    /// Goes on to `pace`; there is no way back.
    pub(crate) fn at(&self, pace: Pace) {
        self.0.send_if_modified(|known| {
            let further = pace > *known;
            *known = pace.max(*known);
            further
        });
    }

    /// Returns how far it is.
    pub(crate) fn pace(&self) -> Pace {
        *self.0.borrow()
    }

    /// Resolves when nothing is to be claimed any more.
    pub(crate) async fn finishing(&self) {
        self.reached(Pace::Finishing).await;
    }

    /// Resolves when what is held is to be left.
    pub(crate) async fn leaving(&self) {
        self.reached(Pace::Leaving).await;
    }

    async fn reached(&self, pace: Pace) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|known| *known >= pace).await;
    }
}
