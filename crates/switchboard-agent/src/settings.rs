//! Which model is asked, and how it is reached: the `[model]` table of the configuration.

use serde::{Deserialize, Serialize};
use switchboard::secret::Secret;
use url::{Host, Url};

use crate::price::ModelPrice;
use crate::usage::TokenUsage;

/// The API of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ModelVendor {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Responses API.
    #[serde(rename = "openai")]
    OpenAi,
    /// The Chat Completions API, which most other vendors and local servers imitate.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// Google's Gemini API.
    Gemini,
    /// The scripted model that is built in.
    Demo,
}

impl ModelVendor {
    /// All vendors.
    pub const ALL: [Self; 5] = [
        Self::Anthropic,
        Self::OpenAi,
        Self::OpenAiChat,
        Self::Gemini,
        Self::Demo,
    ];

    /// The value of `vendor` in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Gemini => "gemini",
            Self::Demo => "demo",
        }
    }

    /// The vendor's own base URL.
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi | Self::OpenAiChat => "https://api.openai.com",
            Self::Gemini => "https://generativelanguage.googleapis.com",
            Self::Demo => "demo:",
        }
    }

    /// The first part of the paths of its API, which a base URL may contain.
    fn api_version(self) -> &'static str {
        match self {
            Self::Gemini => "v1beta",
            _ => "v1",
        }
    }

    /// Variables that usually hold the key, in the order in which they are tried.
    pub fn key_variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &["ANTHROPIC_API_KEY"],
            Self::OpenAi | Self::OpenAiChat => &["OPENAI_API_KEY"],
            Self::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            Self::Demo => &[],
        }
    }
}

/// Vendors by domain, each with the environment variables that may hold its key.
const KEY_VARIABLES: &[(&str, &[&str])] = &[
    ("anthropic.com", &["ANTHROPIC_API_KEY"]),
    ("cerebras.ai", &["CEREBRAS_API_KEY"]),
    ("cohere.com", &["COHERE_API_KEY"]),
    ("deepseek.com", &["DEEPSEEK_API_KEY"]),
    ("fireworks.ai", &["FIREWORKS_API_KEY"]),
    ("googleapis.com", &["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
    ("groq.com", &["GROQ_API_KEY"]),
    ("huggingface.co", &["HF_TOKEN"]),
    ("mistral.ai", &["MISTRAL_API_KEY"]),
    ("moonshot.ai", &["MOONSHOT_API_KEY"]),
    ("openai.com", &["OPENAI_API_KEY"]),
    ("openrouter.ai", &["OPENROUTER_API_KEY"]),
    ("perplexity.ai", &["PERPLEXITY_API_KEY"]),
    ("together.xyz", &["TOGETHER_API_KEY"]),
    ("x.ai", &["XAI_API_KEY"]),
    ("z.ai", &["ZAI_API_KEY"]),
];

/// The context sizes of vendors' own models, by the prefix of their names. Other models need the
/// setting.
const CONTEXT_TOKENS: &[(&str, u64)] = &[
    ("claude-", 200_000),
    ("gpt-4o", 128_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-5", 272_000),
    ("gemini-2.5", 1_048_576),
];

/// The settings of a model. A session file records them, without the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelSettings {
    /// The vendor whose API is used.
    pub vendor: ModelVendor,
    /// The name of the model, as the vendor spells it.
    #[serde(default)]
    pub name: String,
    /// Another server that speaks the vendor's API. The vendor's path is appended.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The key. Whoever reads the configuration falls back to
    /// [`key_variables`](ModelVendor::key_variables) and the keyring.
    #[serde(skip)]
    pub api_key: Option<Secret>,
    /// The most tokens of one answer.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
    /// The reasoning effort, in the vendor's words, such as `low` or `high`.
    #[serde(default)]
    pub effort: Option<String>,
    /// The most tokens for reasoning, for models that accept a number instead of an effort.
    #[serde(default)]
    pub thinking_tokens: Option<u32>,
    /// How many tokens the model can read, where the built-in table has no row or is wrong.
    #[serde(default)]
    pub context_tokens: Option<u64>,
    /// Whether the model takes images. By default it is assumed that it does.
    #[serde(default)]
    pub images: Option<bool>,
    /// What a million tokens cost, where the built-in table is wrong or has no row.
    #[serde(default)]
    pub price: Option<ModelPrice>,
}

/// All variables that usually hold a key of a model's vendor.
pub fn all_key_variables() -> impl Iterator<Item = &'static str> {
    let own = ModelVendor::ALL.into_iter().map(ModelVendor::key_variables);
    let others = KEY_VARIABLES.iter().map(|(_, variables)| *variables);
    own.chain(others).flatten().copied()
}

impl ModelSettings {
    /// Settings with a vendor and a model's name, and nothing else.
    pub fn new(vendor: ModelVendor, name: impl Into<String>) -> Self {
        Self {
            vendor,
            name: name.into(),
            base_url: None,
            api_key: None,
            max_output_tokens: None,
            effort: None,
            thinking_tokens: None,
            context_tokens: None,
            images: None,
            price: None,
        }
    }

    /// Finds errors that would only show at the first request.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.name.trim().is_empty() && self.vendor != ModelVendor::Demo {
            return Err(SettingsError::NoName(self.vendor.name()));
        }
        let Some(base_url) = &self.base_url else {
            return Ok(());
        };
        let unusable = |url: &str, reason: &str| {
            let (url, reason) = (url.to_owned(), reason.to_owned());
            Err(SettingsError::BaseUrl { url, reason })
        };
        let mut url = match Url::parse(base_url) {
            Ok(url) => url,
            Err(error) => return unusable(base_url, &error.to_string()),
        };
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return unusable(base_url, "expected http:// or https:// and a host");
        }
        // The session file has the URL, and the error prints it.
        let has_user_info = !url.username().is_empty() || url.password().is_some();
        if has_user_info && url.set_username("").is_ok() && url.set_password(None).is_ok() {
            return unusable(
                url.as_str(),
                "it has a user name or a password; use `api_key`",
            );
        }
        // The path of each request is appended to it.
        if url.query().is_some() || url.fragment().is_some() {
            return unusable(base_url, "it has a query or a fragment; give it without");
        }
        Ok(())
    }

    /// The base URL in use, without a slash at its end.
    pub fn endpoint(&self) -> &str {
        let url = self.base_url.as_deref();
        url.unwrap_or_else(|| self.vendor.default_base_url())
            .trim_end_matches('/')
    }

    /// Whether the model is at the vendor's own server: others imitate only a part of its API.
    pub fn is_vendors_own(&self) -> bool {
        let Some(base_url) = &self.base_url else {
            return true;
        };
        let own_url = self.vendor.default_base_url();
        // Each turn asks several times, and parsing both takes 30,000 instructions.
        let own_host = own_url.trim_start_matches("https://");
        if !base_url.to_ascii_lowercase().contains(own_host) {
            return false;
        }
        let (Ok(url), Ok(own)) = (Url::parse(base_url), Url::parse(own_url)) else {
            return false;
        };
        let path = url.path().trim_matches('/');
        url.origin() == own.origin() && (path.is_empty() || path == self.vendor.api_version())
    }

    /// The host, for messages.
    pub fn host(&self) -> String {
        let url = Url::parse(self.endpoint()).ok();
        let host = url.as_ref().and_then(Url::host_str).map(str::to_owned);
        host.unwrap_or_else(|| self.endpoint().to_owned())
    }

    /// Variables that usually hold the key of this server, in the order in which they are tried. A
    /// key is sent to its own vendor only.
    pub fn key_variables(&self) -> &'static [&'static str] {
        if self.is_vendors_own() {
            return self.vendor.key_variables();
        }
        let host = match Url::parse(self.endpoint()) {
            Ok(url) if url.scheme() == "https" => url.host_str().unwrap_or_default().to_owned(),
            _ => return &[],
        };
        let is_at = |domain: &str| match host.strip_suffix(domain) {
            Some(rest) => rest.is_empty() || rest.ends_with('.'),
            None => false,
        };
        let known = KEY_VARIABLES.iter().find(|(domain, _)| is_at(domain));
        known.map_or(&[], |(_, variables)| *variables)
    }

    /// How many tokens the model can read: from the settings, or from the table of the vendor's own
    /// models. `None` if it is not known.
    pub fn context_limit(&self) -> Option<u64> {
        let known = || {
            let mut rows = CONTEXT_TOKENS.iter();
            rows.find(|(name, _)| self.name.starts_with(name))
                .map(|(_, tokens)| *tokens)
        };
        match self.context_tokens {
            None if self.is_vendors_own() => known(),
            tokens => tokens,
        }
    }

    /// How many tokens of the context are reserved for an answer. Anthropic requires the number, and its
    /// older models refuse more than they can write.
    pub(crate) fn reserved_tokens(&self) -> u32 {
        let default = match self.name.as_str() {
            _ if self.vendor != ModelVendor::Anthropic => 0,
            name if name.starts_with("claude-3-haiku") || name.starts_with("claude-3-opus") => 4096,
            name if name.starts_with("claude-3-5") => 8192,
            _ => 32_000,
        };
        // The answer must have room beside the thoughts.
        let least = match (self.vendor, self.thinking_tokens) {
            (ModelVendor::Anthropic, Some(tokens)) => tokens.saturating_add(4096),
            _ => 0,
        };
        self.max_output_tokens.unwrap_or(default).max(least)
    }

    /// Whether it is a server on this machine, which no proxy can reach.
    pub(crate) fn is_on_this_machine(&self) -> bool {
        let url = Url::parse(self.endpoint()).ok();
        match url.as_ref().and_then(Url::host) {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }

    /// What a million tokens cost: as the settings say, or from the table where the vendor's own
    /// server is asked. `None` where it is not known.
    pub fn model_price(&self) -> Option<ModelPrice> {
        match self.price {
            None if self.is_vendors_own() => ModelPrice::listed(&self.name),
            price => price,
        }
    }

    /// What a turn cost, in US dollars: what the vendor says it charged, else by its price. `None`
    /// where it is not known.
    pub fn turn_cost(&self, usage: &TokenUsage) -> Option<f64> {
        let by_price = || self.model_price().and_then(|price| price.cost(usage));
        usage.charged_usd.or_else(by_price)
    }

    /// Whether images are sent to it.
    pub fn takes_images(&self) -> bool {
        // DeepSeek refuses a request with an image in it. Only its own URL is parsed for that.
        let refusing = "deepseek.com";
        let refuses = || self.endpoint().contains(refusing) && self.host().ends_with(refusing);
        self.images.unwrap_or_else(|| !refuses())
    }
}

/// Why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A vendor without a model.
    #[error("[model] has no `name`; with `vendor = \"{0}\"` it must name a model")]
    NoName(&'static str),
    /// A URL that cannot be used.
    #[error("[model] `base_url` \"{url}\" is not a usable URL: {reason}")]
    BaseUrl {
        /// As it was written, without a password.
        url: String,
        /// What is wrong.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_neither_printed_nor_recorded() {
        let mut settings = ModelSettings::new(ModelVendor::OpenAiChat, "m");
        settings.base_url = Some("http://127.0.0.1:8080/".to_owned());
        assert_eq!(settings.endpoint(), "http://127.0.0.1:8080");
        assert_eq!(settings.host(), "127.0.0.1");
        assert!(!settings.is_vendors_own() && settings.is_on_this_machine());
        let recorded = serde_json::to_string(&settings).expect("serialises");
        let again: ModelSettings = serde_json::from_str(&recorded).expect("reads");
        assert_eq!(again, settings);
        settings.api_key = Some(Secret::new("sk-hidden"));
        assert!(!format!("{settings:?}").contains("sk-hidden"));
        assert_eq!(
            serde_json::to_string(&settings).expect("serialises"),
            recorded
        );
    }

    #[test]
    fn the_vendors_own_server_is_known_in_each_spelling_of_its_url() {
        let check = |vendor, base_url: &str, expected: bool| {
            let mut settings = ModelSettings::new(vendor, "m");
            settings.base_url = Some(base_url.to_owned());
            assert_eq!(settings.is_vendors_own(), expected, "{base_url}");
        };
        let openai = ModelVendor::OpenAi;
        check(openai, "https://api.openai.com", true);
        check(openai, "https://api.openai.com/v1", true);
        check(openai, "https://API.openai.com:443/v1/", true);
        check(openai, "http://api.openai.com/v1", false);
        check(openai, "https://api.openai.com:444/v1", false);
        check(openai, "https://api.openai.com/proxy", false);
        check(openai, "https://api.openai.com.evil.example/v1", false);
        let gemini = ModelVendor::Gemini.default_base_url();
        check(ModelVendor::Gemini, &format!("{gemini}/v1beta"), true);
        check(ModelVendor::OpenAiChat, &format!("{gemini}/v1beta"), false);
        assert!(ModelSettings::new(ModelVendor::Demo, "m").is_vendors_own());
    }

    #[test]
    fn a_key_is_taken_from_the_variable_of_its_own_vendor() {
        let check = |vendor, base_url: Option<&str>, expected: Option<&str>| {
            let mut settings = ModelSettings::new(vendor, "m");
            settings.base_url = base_url.map(str::to_owned);
            let found = settings.key_variables().first().copied();
            assert_eq!(found, expected, "{base_url:?}");
        };
        let chat = ModelVendor::OpenAiChat;
        check(chat, None, Some("OPENAI_API_KEY"));
        check(ModelVendor::Gemini, None, Some("GEMINI_API_KEY"));
        check(
            chat,
            Some("https://openrouter.ai/api"),
            Some("OPENROUTER_API_KEY"),
        );
        check(chat, Some("https://api.x.ai"), Some("XAI_API_KEY"));
        check(chat, Some("http://api.x.ai"), None);
        check(chat, Some("https://notx.ai"), None);
        check(chat, Some("https://api.openai.com.evil.example"), None);
        check(chat, Some("http://127.0.0.1:1"), None);
        assert_eq!(
            ModelSettings::new(ModelVendor::Anthropic, "claude-x").context_limit(),
            Some(200_000)
        );
        assert_eq!(ModelSettings::new(chat, "unknown").context_limit(), None);
    }

    #[test]
    fn unusable_settings_are_found_before_the_first_request() {
        let mut settings = ModelSettings::new(ModelVendor::Gemini, " ");
        assert_eq!(settings.check(), Err(SettingsError::NoName("gemini")));
        settings.name = "gemini-3-pro".to_owned();
        for url in [
            "nonsense",
            "ftp://host",
            "http://",
            "https://host/v1?api-version=1",
            "https://host/v1#x",
            "https://user:pa55word@host",
        ] {
            settings.base_url = Some(url.to_owned());
            let found = settings.check();
            assert!(
                matches!(found, Err(SettingsError::BaseUrl { .. })),
                "{url}: {found:?}"
            );
            assert!(!format!("{found:?}").contains("pa55word"), "{found:?}");
        }
    }

    #[test]
    fn other_servers_have_no_price_unless_the_settings_have_one() {
        let mut settings = ModelSettings::new(ModelVendor::OpenAiChat, "gpt-4o");
        settings.base_url = Some("http://127.0.0.1:1".to_owned());
        let usage = TokenUsage {
            input: Some(1_000_000),
            output: Some(500_000),
            cache_read: Some(1_000_000),
            ..TokenUsage::default()
        };
        assert_eq!(settings.turn_cost(&usage), None);
        settings.price = Some(ModelPrice {
            input: 2.0,
            output: 4.0,
            cache_read: Some(0.5),
            cache_write: None,
        });
        assert_eq!(settings.turn_cost(&usage), Some(4.5));
        assert_eq!(settings.turn_cost(&TokenUsage::default()), None);
    }
}
