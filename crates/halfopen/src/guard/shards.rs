//! Counts without contention: every thread has a cell of its own.
//!
//! A thread takes one of a fixed number of numbers while it lives; a cell that only one thread writes is counted up by
//! a load and a store, which no other core has to agree to. Threads beyond that number share the last cell, and pay for
//! it with an atomic addition.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cells of one counter; the last is shared.
const CELLS: usize = 64;
const SHARED: usize = CELLS - 1;
const UNKNOWN: usize = usize::MAX;

/// A counter. Reading it adds up all cells and sees each at some recent instant.
#[derive(Debug)]
pub(super) struct Counter {
    cells: Box<[Padded; CELLS]>,
}

/// Two cache lines, because processors fetch them in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Padded(AtomicU64);

impl Counter {
    pub(super) fn new() -> Self {
        Self { cells: Box::new(std::array::from_fn(|_| Padded::default())) }
    }

    /// Counts one, and returns how many this cell had before.
    #[inline]
    pub(super) fn add_one(&self) -> u64 {
        let number = NUMBER.get();
        if number < SHARED {
            let cell = &self.cells[number].0;
            let before = cell.load(Ordering::Relaxed);
            cell.store(before.wrapping_add(1), Ordering::Relaxed);
            before
        } else {
            self.add_one_elsewhere(number)
        }
    }

    #[cold]
    fn add_one_elsewhere(&self, number: usize) -> u64 {
        if number == UNKNOWN {
            NUMBER.set(take_number());
            return self.add_one();
        }
        self.cells[SHARED].0.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn total(&self) -> u64 {
        self.cells.iter().fold(0, |sum, cell| sum.wrapping_add(cell.0.load(Ordering::Relaxed)))
    }
}

thread_local! {
    // Apart from what gives the number back, so that reading it is one load without a look at the state of that.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    static LOAN: Cell<Option<Loan>> = const { Cell::new(None) };
}

/// Numbers that ended threads gave back, and the first that was never taken.
static FREE: Mutex<(Vec<usize>, usize)> = Mutex::new((Vec::new(), 0));

/// A number on loan to one thread.
struct Loan(usize);

impl Drop for Loan {
    fn drop(&mut self) {
        // What this thread still counts while it ends goes to the shared cell.
        let _ = NUMBER.try_with(|number| number.set(SHARED));
        FREE.lock().unwrap_or_else(PoisonError::into_inner).0.push(self.0);
    }
}

fn take_number() -> usize {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let number = match free.0.pop() {
        Some(number) => number,
        None if free.1 < SHARED => {
            free.1 += 1;
            free.1 - 1
        }
        None => return SHARED,
    };
    drop(free);
    // A thread that is ending cannot borrow any more: its loan is dropped at once.
    match LOAN.try_with(|loan| loan.set(Some(Loan(number)))) {
        Ok(()) => number,
        Err(_) => SHARED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_cells_lose_no_count() {
        let counter = Counter::new();
        let barrier = std::sync::Barrier::new(CELLS + 16);
        std::thread::scope(|scope| {
            for _ in 0..CELLS + 16 {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..100 {
                        counter.add_one();
                    }
                    barrier.wait();
                });
            }
        });
        assert_eq!(counter.total(), (CELLS as u64 + 16) * 100);
    }

    #[test]
    fn cells_of_ended_threads_are_used_again() {
        let counter = Counter::new();
        for _ in 0..3 * CELLS {
            std::thread::scope(|scope| {
                scope.spawn(|| counter.add_one());
            });
        }
        assert_eq!(counter.total(), 3 * CELLS as u64);
        assert!(FREE.lock().unwrap().0.len() <= SHARED);
    }
}
