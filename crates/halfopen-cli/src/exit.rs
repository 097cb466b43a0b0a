//! Assigns every exit code of halfopen, in one place.

/// Usage error (EX_USAGE of sysexits.h).
pub const USAGE: u8 = 64;
/// The call itself is wrong (EX_DATAERR).
pub const INVALID_REQUEST: u8 = 65;
/// Refused, and time alone does not heal it (EX_UNAVAILABLE).
pub const QUOTA_EXHAUSTED: u8 = 69;
/// Any other failure of a child that said 0 (EX_SOFTWARE).
pub const FAILED: u8 = 70;
/// Try again later (EX_TEMPFAIL).
pub const TRY_LATER: u8 = 75;
/// The credential was refused (EX_NOPERM).
pub const AUTH: u8 = 77;
/// The policy file cannot be used (EX_CONFIG).
pub const POLICY: u8 = 78;
/// Accepted and queued.
pub const QUEUED: u8 = 79;
/// Our timeout, as timeout(1).
pub const TIMED_OUT: u8 = 124;
/// The command cannot be run, as env(1).
pub const NOT_EXECUTABLE: u8 = 126;
/// The command was not found, as env(1).
pub const NOT_FOUND: u8 = 127;
