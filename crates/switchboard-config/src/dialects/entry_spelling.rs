//! How a dialect writes a new entry: the section, and the names of its fields.

/// The form of a new entry in one dialect.
#[derive(Debug)]
pub(crate) struct EntrySpelling {
    /// The keys that lead to the entries.
    pub(crate) container: &'static [&'static str],
    /// A field that is written along with `command`.
    pub(crate) stdio: Option<(&'static str, &'static str)>,
    /// How a URL is written if no transport is named, for Streamable HTTP, and for HTTP+SSE.
    pub(crate) auto: UrlField,
    pub(crate) http: UrlField,
    pub(crate) sse: UrlField,
    pub(crate) headers: Option<&'static str>,
    pub(crate) cwd: Option<&'static str>,
    /// The field that enables a server, and its value for enabled.
    pub(crate) enabled: Option<(&'static str, bool)>,
    /// How the value of a variable or a header refers to a variable.
    pub(crate) reference: ReferenceForm,
    /// The version field of a new file.
    pub(crate) version: Option<(&'static str, u32)>,
}

/// The field of a URL, and a field written along with it; `None` if the dialect has no such
/// transport.
pub(crate) type UrlField = Option<(&'static str, Option<(&'static str, &'static str)>)>;

/// How a reference is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReferenceForm {
    /// `${NAME}` with defaults, and `$$` for `$`: the value as it is.
    Native,
    /// `${NAME}`, and `$${` for `${`.
    Braced,
    /// The name between these two texts.
    Between(&'static str, &'static str),
    /// `env("NAME")`, which is the whole value.
    Call,
    /// The name of the variable, in another field than literal values.
    ByName,
    /// The dialect has no references.
    None,
}

/// A URL and no other field.
pub(crate) const URL: UrlField = Some(("url", None));
/// A URL of HTTP+SSE in the native file.
pub(crate) const SSE: UrlField = Some(("url", Some(("transport", "sse"))));
