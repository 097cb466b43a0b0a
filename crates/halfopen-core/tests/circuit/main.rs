//! The circuit from outside: stories, properties, a naive model beside it, and what is stored of it.

mod world;

mod stories_breaker;
mod stories_throttle;
