//! How TLS is spoken to others: to dependencies, to the receivers of alerts, to a collector.
//!
//! It is rustls with one provider, passed explicitly, so that no other crate's choice can make it panic. The trusted
//! roots are the system's (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured); where it has none, Mozilla's.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};

/// Returns how a client speaks TLS; made once, because reading the system's roots takes milliseconds.
///
/// # Errors
///
/// If the provider supports none of the protocol versions, each time.
pub(crate) fn client() -> io::Result<Arc<ClientConfig>> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CONFIG.get_or_init(made).clone().map_err(io::Error::other)
}

fn made() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
