//! The circuit from outside: stories, properties, a naive model beside it, and what is stored of it.

mod model;
mod walk;
mod world;

mod properties;
mod stories_breaker;
mod stories_pair;
mod stories_throttle;
