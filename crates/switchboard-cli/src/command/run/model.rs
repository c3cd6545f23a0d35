//! The choice of a model: from `--model` and `[model]`, or the built-in script.

use switchboard::config::{Environment, ModelEntry};
use switchboard::secret::Secret;
use switchboard_agent::price::ModelPrice;
use switchboard_agent::{DemoModel, HttpModel, Model, ModelSettings, ModelVendor};

use crate::command::login::model_key;
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::setup::{self, OutputScope, Setup};
use crate::view::server::escaped;
use crate::{hints, output};

/// The model of this run.
pub(super) fn choose(setup: &Setup, option: Option<&str>) -> Result<Box<dyn Model>, Failure> {
    choose_from(setup.config.model.as_ref(), &setup.environment, option)
}

/// The same for a conversation that runs already. `option` is `--model`.
pub(in crate::command) fn choose_from(
    entry: Option<&ModelEntry>,
    environment: &Environment,
    option: Option<&str>,
) -> Result<Box<dyn Model>, Failure> {
    let mut settings = settings(entry, option, environment)?;
    if settings.vendor == ModelVendor::Demo {
        output::notice(&format!("model {}", DemoModel.description()));
        return Ok(Box::new(DemoModel));
    }
    if settings.name.is_empty() {
        let vendor = settings.vendor.name();
        return Err(
            usage(format!("vendor \"{vendor}\": no model is named")).hint(format!(
                "set `name` in [model], or give --model {vendor}/NAME"
            )),
        );
    }
    let own = entry.filter(|entry| vendor_of(&entry.vendor) == Some(settings.vendor));
    if let Some(entry) = own
        && let Some(api_key) = &entry.api_key
        && entry
            .resolve(environment)
            .is_ok_and(|entry| entry.api_key.is_none())
    {
        // A value that expands to nothing consists of references, so it contains no secret.
        output::notice(&format!(
            "[model] `api_key` is left out: it is \"{}\", which is empty or not set",
            escaped(api_key.expose())
        ));
    }
    let paths = Paths::find()?;
    if settings.api_key.is_none() {
        settings.api_key = model_key::stored(&paths, &settings);
    }
    if settings.is_vendors_own() && settings.api_key.is_none() {
        let host = settings.host();
        let message = format!("model \"{}\" at {host}: there is no key", settings.name);
        let variables = settings.key_variables().first();
        let variable = variables.map_or_else(String::new, |name| format!("set {name}, or "));
        let login = hints::store_model_key(settings.vendor.name());
        return Err(Failure::new(Code::Login, escaped(&message)).hint(format!(
            "{variable}store it with {login}, or set `api_key` in [model]"
        )));
    }
    let model = HttpModel::new(settings).map_err(|error| usage(error.to_string()))?;
    let store = setup::open_store(&paths, OutputScope::Result);
    Ok(Box::new(model.remember_in(store)))
}

/// The settings that a key of this vendor is stored for: those of `[model]` if its vendor is the same.
pub(in crate::command) fn key_target(
    setup: &Setup,
    vendor: &str,
) -> Result<ModelSettings, Failure> {
    let known = || {
        ModelVendor::ALL
            .iter()
            .filter(|vendor| **vendor != ModelVendor::Demo)
    };
    let Some(vendor) = known().find(|known| known.name() == vendor) else {
        let names: Vec<&str> = known().map(|vendor| vendor.name()).collect();
        return Err(usage(format!("--model {vendor:?}: unknown vendor"))
            .hint(format!("expected one of {}", names.join(", "))));
    };
    let option = format!("{}/", vendor.name());
    settings(
        setup.config.model.as_ref(),
        Some(&option),
        &setup.environment,
    )
}

fn settings(
    entry: Option<&ModelEntry>,
    option: Option<&str>,
    environment: &Environment,
) -> Result<ModelSettings, Failure> {
    let entry = entry
        .map(|entry| entry.resolve(environment))
        .transpose()
        .map_err(|fault| usage(fault.to_string()))?;
    let (given_vendor, given_name) = option.map_or((None, None), split);
    let own_vendor = entry.as_ref().and_then(|entry| vendor_of(&entry.vendor));
    let vendor = match (given_vendor.or(own_vendor), given_name) {
        (Some(vendor), _) => vendor,
        (None, None) => return Ok(ModelSettings::new(ModelVendor::Demo, "demo")),
        (None, Some(name)) => return Err(unknown_vendor(name)),
    };
    // Address and key belong to one vendor.
    let entry = entry.filter(|_| own_vendor == Some(vendor));
    let mut settings = entry.map_or_else(
        || ModelSettings::new(vendor, ""),
        |entry| settings_of(vendor, entry),
    );
    if let Some(name) = given_name {
        settings.name = name.to_owned();
    }
    if settings.api_key.is_none() {
        settings.api_key = key_in(environment, &settings);
    }
    Ok(settings)
}

/// The settings of `[model]`.
fn settings_of(vendor: ModelVendor, entry: ModelEntry) -> ModelSettings {
    let small =
        |tokens: Option<u64>| tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
    let mut settings = ModelSettings::new(vendor, entry.name.unwrap_or_default());
    settings.base_url = entry.base_url;
    settings.api_key = entry.api_key;
    settings.context_tokens = entry.context_tokens;
    settings.max_output_tokens = small(entry.max_output_tokens);
    settings.thinking_tokens = small(entry.thinking_tokens);
    settings.effort = entry.effort;
    settings.images = entry.images;
    settings.price = entry.price.map(|price| ModelPrice {
        input: price.input,
        output: price.output,
        cache_read: price.cache_read,
        cache_write: price.cache_write,
    });
    settings
}

/// The key in the first variable of the server that is not empty.
fn key_in(environment: &Environment, settings: &ModelSettings) -> Option<Secret> {
    let variables = settings.key_variables().iter();
    let mut keys = variables.filter_map(|name| environment.get(name));
    keys.find(|key| !key.expose().is_empty()).cloned()
}

fn unknown_vendor(name: &str) -> Failure {
    usage(format!(
        "--model {name:?}: there is no [model], so its vendor is unknown"
    ))
    .hint("give VENDOR/NAME, such as anthropic/NAME, or add [model] to your own switchboard.toml")
}

/// `VENDOR/NAME`, `demo`, or a name alone, which may contain a slash.
fn split(option: &str) -> (Option<ModelVendor>, Option<&str>) {
    if let Some((word, name)) = option.split_once('/')
        && let Some(vendor) = vendor_of(word)
    {
        return (Some(vendor), Some(name));
    }
    match option == ModelVendor::Demo.name() {
        true => (Some(ModelVendor::Demo), None),
        false => (None, Some(option)),
    }
}

fn vendor_of(word: &str) -> Option<ModelVendor> {
    ModelVendor::ALL
        .into_iter()
        .find(|vendor| vendor.name() == word)
}

fn usage(message: String) -> Failure {
    Failure::new(Code::Usage, escaped(&message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(base_url: Option<&str>) -> ModelEntry {
        ModelEntry {
            vendor: "openai".to_owned(),
            name: Some("own".to_owned()),
            base_url: base_url.map(str::to_owned),
            ..ModelEntry::default()
        }
    }

    #[test]
    fn a_given_model_replaces_the_name_or_the_whole_entry() {
        let environment = Environment::new([("OPENAI_API_KEY".to_owned(), "k".to_owned())]);
        let check = |entry: Option<&ModelEntry>, option: Option<&str>, vendor, name: &str, key| {
            let found = settings(entry, option, &environment).unwrap();
            assert_eq!((found.vendor, &*found.name), (vendor, name), "{option:?}");
            assert_eq!(found.api_key.is_some(), key, "{option:?}");
        };
        let own = entry(None);
        check(None, None, ModelVendor::Demo, "demo", false);
        check(Some(&own), None, ModelVendor::OpenAi, "own", true);
        check(Some(&own), Some("a/b"), ModelVendor::OpenAi, "a/b", true);
        check(Some(&own), Some("demo"), ModelVendor::Demo, "", false);
        let gemini = ModelVendor::Gemini;
        check(Some(&own), Some("gemini/g"), gemini, "g", false);
        // The vendor's key does not go to another server.
        let other = entry(Some("http://127.0.0.1:1"));
        check(Some(&other), None, ModelVendor::OpenAi, "own", false);
        assert!(settings(None, Some("x"), &environment).is_err());
    }

    #[test]
    fn an_empty_variable_does_not_hide_the_next_one() {
        let variables = [("GEMINI_API_KEY", ""), ("GOOGLE_API_KEY", "k")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = settings(None, Some("gemini/g"), &Environment::new(variables)).unwrap();
        assert_eq!(found.api_key.as_ref().map(|key| key.expose()), Some("k"));
    }
}
