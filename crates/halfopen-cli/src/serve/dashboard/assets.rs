//! Holds the files that pages refer to, each under a name that changes with what is in it.
//!
//! They are compiled in: nothing has to be installed beside the binary, and a page never meets a style sheet of another
//! version. Because the name changes with the content, browsers may keep them for ever.

use std::fmt::Write as _;
use std::sync::LazyLock;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use sha2::{Digest as _, Sha256};

use crate::serve::body::{self, Body};

/// One file.
struct Asset {
    path: String,
    media_type: &'static str,
    bytes: &'static [u8],
}

/// Where pages find them.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    pub(super) style: &'static str,
    pub(super) script: &'static str,
    pub(super) icon: &'static str,
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        asset("style", "css", "text/css; charset=utf-8", include_bytes!("../../../assets/style.css")),
        asset("live", "js", "text/javascript; charset=utf-8", include_bytes!("../../../assets/live.js")),
        asset("icon", "svg", "image/svg+xml", include_bytes!("../../../assets/icon.svg")),
    ]
});

fn asset(name: &str, ending: &str, media_type: &'static str, bytes: &'static [u8]) -> Asset {
    let digest = Sha256::digest(bytes).iter().take(8).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    Asset { path: format!("/ui/assets/{name}-{digest}.{ending}"), media_type, bytes }
}

/// Returns where they are.
pub(super) fn paths() -> Paths {
    let [style, script, icon] = &*ASSETS;
    Paths { style: &style.path, script: &script.path, icon: &icon.path }
}

/// Answers with a file; `None` if there is none of that name.
pub(super) fn answer(name: &str) -> Option<Response<Body>> {
    let asset = ASSETS.iter().find(|asset| asset.path.rsplit('/').next() == Some(name))?;
    let mut response = Response::new(body::full(asset.bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_whole_name_alone() {
        let name = paths().style.rsplit('/').next().unwrap();
        assert!(answer(name).is_some());
        assert!(answer("style-0000000000000000.css").is_none());
        assert!(answer("style").is_none());
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        for asset in &*ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            let elsewhere = text.replace("url(#", "").contains("url(") || text.contains("@import");
            assert!(!elsewhere && !text.contains("//cdn"), "{}", asset.path);
        }
    }
}
