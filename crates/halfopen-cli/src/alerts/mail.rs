//! Sends alerts by mail, through the server whose URL stands in a variable: `smtps://USER:PASSWORD@HOST:465`,
//! `smtp://HOST:25`, or `smtp://HOST:587?tls=required`.
//!
//! The mails of one incident are one thread: each refers to a name that the incident has for ever.

use std::time::Duration;

use halfopen_core::redact;
use halfopen_core::verdict::Class;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message as Mail, Tokio1Executor};

use super::Outcome;
use super::message::Message;

/// Sends a mail to each address in `to`, as one.
pub(super) fn send(server: &str, from: Option<&str>, to: &[String], message: &Message, within: Duration) -> Outcome {
    let mail = match written(from, to, message) {
        Ok(mail) => mail,
        Err(why) => return Outcome::never(why),
    };
    let transport = match AsyncSmtpTransport::<Tokio1Executor>::from_url(server) {
        Ok(builder) => builder.timeout(Some(within)).build(),
        Err(_) => return Outcome::never("the mail server's URL cannot be used; write smtps://USER:PASSWORD@HOST:465"),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Outcome::not_now(Class::InvalidRequest, format!("cannot start: {error}")),
    };
    let sent = runtime.block_on(async { tokio::time::timeout(within, transport.send(mail)).await });
    runtime.block_on(async { drop(transport) });
    runtime.shutdown_background();
    match sent {
        Ok(Ok(_)) => Outcome::taken(),
        Ok(Err(error)) => {
            let why = format!("the mail server did not take it: {}", redact::line(&error.to_string()));
            if error.is_permanent() { Outcome::never(why) } else { Outcome::not_now(Class::ServerError, why) }
        }
        Err(_) => {
            let why = format!("the mail server did not take it within {:.1} s", within.as_secs_f64());
            Outcome::not_now(Class::Timeout, why)
        }
    }
}

fn written(from: Option<&str>, to: &[String], message: &Message) -> Result<Mail, String> {
    let address = |text: &str| text.parse::<Mailbox>().map_err(|_| format!("`{text}` is no mail address"));
    let first = to.first().ok_or_else(|| "there is no address to send to".to_owned())?;
    let mut mail = Mail::builder().from(address(from.unwrap_or(first))?);
    for one in to {
        mail = mail.to(address(one)?);
    }
    let thread = format!("<{}@halfopen.invalid>", message.thread);
    mail.subject(format!("[halfopen] {}", message.headline))
        .message_id(Some(format!("<{}@halfopen.invalid>", message.id)))
        .in_reply_to(thread.clone())
        .references(thread)
        .header(ContentType::TEXT_PLAIN)
        .body(message.text())
        .map_err(|error| format!("the mail cannot be written: {error}"))
}
