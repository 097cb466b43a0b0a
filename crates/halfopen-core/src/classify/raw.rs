//! The written form of rule packs: what stands in `profiles/*.yaml` and under `classify:` in a policy.

/// One rule as it is written.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawRule {
    /// Its name, unique in its pack.
    pub name: String,
}
