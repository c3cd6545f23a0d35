//! The section `[model]`: the model for `chat` and `run`, and its API.

use super::environment::Environment;
use super::expand::Expansion;
use super::reference::{ReferenceSyntax, TextRole};
use crate::secret::Secret;

/// A model as written in a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelEntry {
    /// The value of the field `vendor`.
    pub vendor: String,
    /// The name of the model, as the vendor spells it.
    pub name: Option<String>,
    /// Another server that speaks the vendor's API.
    pub base_url: Option<String>,
    /// The API key.
    pub api_key: Option<Secret>,
    /// The size of the context, in tokens.
    pub context_tokens: Option<u64>,
    /// The most tokens of one response.
    pub max_output_tokens: Option<u64>,
    /// The reasoning effort, in the vendor's words.
    pub effort: Option<String>,
    /// The most tokens for reasoning.
    pub thinking_tokens: Option<u64>,
    /// Whether the model accepts images.
    pub images: Option<bool>,
    /// The price of tokens.
    pub price: Option<TokenPrice>,
}

/// The price of a million tokens, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenPrice {
    /// Input outside the cache.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: Option<f64>,
    /// Input written to the cache.
    pub cache_write: Option<f64>,
}

impl TokenPrice {
    pub(super) fn from_amounts(amounts: &[(&str, f64)]) -> Option<Self> {
        let amount = |key: &str| {
            let mut found = amounts.iter().filter(|(name, _)| *name == key);
            found.next().map(|(_, amount)| *amount)
        };
        Some(Self {
            input: amount("input")?,
            output: amount("output")?,
            cache_read: amount("cache_read"),
            cache_write: amount("cache_write"),
        })
    }
}

/// Why a model's entry cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[model] `{field}` cannot be used: {fact}")]
pub struct ModelEntryFault {
    /// The field.
    pub field: &'static str,
    /// The error; never the text.
    pub fact: String,
}

impl ModelEntry {
    /// Expands the references to variables. A key that is then empty counts as absent.
    pub fn resolve(&self, environment: &Environment) -> Result<Self, ModelEntryFault> {
        let mut expansion = Expansion::new(environment, ReferenceSyntax::Native);
        let mut expand = |field: &'static str, role, text: &str| {
            let expanded = expansion.expand(role, field, text);
            expanded.map_err(|fact| ModelEntryFault {
                field,
                fact: fact.to_owned(),
            })
        };
        let mut resolved = self.clone();
        for (field, text) in [
            ("name", &mut resolved.name),
            ("base_url", &mut resolved.base_url),
        ] {
            if let Some(text) = text {
                *text = expand(field, TextRole::Launch, text)?;
            }
        }
        if let Some(key) = &self.api_key {
            let key = expand("api_key", TextRole::Value, key.expose())?;
            resolved.api_key = (!key.is_empty()).then(|| Secret::new(key));
        }
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{ConfigFile, Scope, load};

    fn loaded(scope: Scope, text: &str) -> Result<(Option<ModelEntry>, String), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switchboard.toml");
        std::fs::write(&path, text).unwrap();
        let config = load(&[ConfigFile::new(path, scope)]).map_err(|error| error.to_string())?;
        let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        Ok((config.model, warnings.join("\n")))
    }

    const TEXT: &str = "[model]\nvendor = 'openai-chat'\nname = 'm'\n\
                        base_url = 'http://${HOST}:1'\napi_key = '${KEY}'\n";

    #[test]
    fn references_are_expanded_and_the_key_never_prints() {
        let (model, warnings) = loaded(Scope::User, TEXT).unwrap();
        assert_eq!(warnings, "");
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let environment = Environment::new([set("HOST", "h"), set("KEY", "sk-1")]);
        let resolved = model.clone().unwrap().resolve(&environment).unwrap();
        assert_eq!(resolved.base_url.as_deref(), Some("http://h:1"));
        assert!(!format!("{resolved:?}").contains("sk-1"));
        assert_eq!(resolved.api_key.unwrap().expose(), "sk-1");
        let without = model.unwrap().resolve(&Environment::new([])).unwrap();
        assert_eq!(without.api_key, None);
    }

    /// A project that set the model would receive the API key of whoever opens it.
    #[test]
    fn a_projects_model_is_ignored() {
        let (model, warnings) = loaded(Scope::Project, TEXT).unwrap();
        assert_eq!(model, None);
        assert!(
            warnings.contains("only your own file decides"),
            "{warnings}"
        );
    }

    #[test]
    fn limits_and_prices_are_numbers() {
        let text = "[model]\nvendor = 'demo'\ncontext_tokens = 200000\neffort = 'high'\n\
                    images = false\nprice = { input = 3, output = 15.5, cache_read = 0.3 }\n";
        let model = loaded(Scope::User, text).unwrap().0.unwrap();
        assert_eq!(model.context_tokens, Some(200_000));
        assert_eq!(
            (model.effort.as_deref(), model.images),
            (Some("high"), Some(false))
        );
        let price = model.price.unwrap();
        assert_eq!((price.input, price.output), (3.0, 15.5));
        assert_eq!((price.cache_read, price.cache_write), (Some(0.3), None));
        for (line, expected) in [
            ("context_tokens = 0", "a whole number above 0"),
            ("max_output_tokens = '8k'", "a whole number above 0"),
            ("price = 3", "a table of numbers"),
            ("price = { input = -1, output = 2 }", "not negative"),
            ("price = { input = 1 }", "must both be set"),
            ("price = { inptu = 1, output = 2 }", "did you mean `input`?"),
        ] {
            let text = format!("[model]\nvendor = 'demo'\n{line}\n");
            let (_, found) = loaded(Scope::User, &text).unwrap_or_else(|error| (None, error));
            assert!(found.contains(expected), "{line}: {found}");
        }
    }

    #[test]
    fn a_model_needs_a_known_vendor() {
        for text in ["[model]\nname = 'm'\n", "[model]\nvendor = 'acme'\n"] {
            let error = loaded(Scope::User, text).unwrap_err();
            assert!(error.contains("vendor"), "{error}");
        }
    }
}
