//! Which model is asked: that of `--model` and `[model]`, or the built-in script.

use switchboard::config::{Environment, ModelEntry};
use switchboard_agent::{DemoModel, HttpModel, Model, ModelSettings, ModelVendor};

use crate::failure::{Code, Failure};
use crate::output;
use crate::setup::Setup;
use crate::view::server::escaped;

const VENDORS: [ModelVendor; 5] = [
    ModelVendor::Anthropic,
    ModelVendor::OpenAi,
    ModelVendor::OpenAiChat,
    ModelVendor::Gemini,
    ModelVendor::Demo,
];

/// The model of this run.
pub(super) fn choose(setup: &Setup, given: Option<&str>) -> Result<Box<dyn Model>, Failure> {
    let settings = settings(setup.config.model.as_ref(), given, &setup.environment)?;
    if settings.vendor == ModelVendor::Demo {
        output::notice(&format!("model {}", DemoModel.description()));
        return Ok(Box::new(DemoModel));
    }
    if let (true, None, [variable, ..]) = (
        settings.is_vendors_own(),
        &settings.api_key,
        settings.vendor.key_variables(),
    ) {
        let host = settings.host();
        let message = format!("model \"{}\" at {host}: there is no key", settings.name);
        return Err(Failure::new(Code::Login, escaped(&message))
            .hint(format!("set {variable}, or `api_key` in [model]")));
    }
    let model = HttpModel::new(settings).map_err(|error| usage(error.to_string()))?;
    Ok(Box::new(model))
}

fn settings(
    entry: Option<&ModelEntry>,
    given: Option<&str>,
    environment: &Environment,
) -> Result<ModelSettings, Failure> {
    let entry = entry
        .map(|entry| entry.resolve(environment))
        .transpose()
        .map_err(|fault| usage(fault.to_string()))?;
    let (given_vendor, given_name) = match given {
        Some(given) => split(given),
        None => (None, None),
    };
    let own_vendor = entry.as_ref().and_then(|entry| vendor_of(&entry.vendor));
    let Some(vendor) = given_vendor.or(own_vendor) else {
        return match given_name {
            Some(name) => Err(usage(format!(
                "--model {name:?}: there is no [model], so its vendor is unknown"
            ))
            .hint("give VENDOR/NAME, such as anthropic/NAME, or add [model] to switchboard.toml")),
            None => Ok(ModelSettings::new(ModelVendor::Demo, "demo")),
        };
    };
    // Address and key of one vendor are not another's.
    let entry = entry.filter(|_| own_vendor == Some(vendor));
    let own_name = entry.as_ref().and_then(|entry| entry.name.clone());
    let name = given_name.map(str::to_owned).or(own_name);
    let mut settings = ModelSettings::new(vendor, name.unwrap_or_default());
    let usual_key = || {
        let mut variables = vendor.key_variables().iter();
        let key = variables.find_map(|name| environment.get(name));
        key.filter(|key| !key.expose().is_empty()).cloned()
    };
    // The usual variable holds the key of the vendor itself; it is sent nowhere else.
    settings.base_url = entry.as_ref().and_then(|entry| entry.base_url.clone());
    let own_key = entry.and_then(|entry| entry.api_key);
    let key = match settings.is_vendors_own() {
        true => own_key.or_else(usual_key),
        false => own_key,
    };
    settings.api_key = key;
    Ok(settings)
}

/// `VENDOR/NAME`, `demo`, or a name alone, which may contain a slash.
fn split(given: &str) -> (Option<ModelVendor>, Option<&str>) {
    if let Some((word, name)) = given.split_once('/')
        && let Some(vendor) = vendor_of(word)
    {
        return (Some(vendor), Some(name));
    }
    match given == ModelVendor::Demo.name() {
        true => (Some(ModelVendor::Demo), None),
        false => (None, Some(given)),
    }
}

fn vendor_of(word: &str) -> Option<ModelVendor> {
    VENDORS.into_iter().find(|vendor| vendor.name() == word)
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
            api_key: None,
        }
    }

    #[test]
    fn a_given_model_replaces_the_name_or_the_whole_entry() {
        let environment = Environment::new([("OPENAI_API_KEY".to_owned(), "k".to_owned())]);
        let check = |entry: Option<&ModelEntry>, given: Option<&str>, vendor, name: &str, key| {
            let found = settings(entry, given, &environment).unwrap();
            assert_eq!((found.vendor, &*found.name), (vendor, name), "{given:?}");
            assert_eq!(found.api_key.is_some(), key, "{given:?}");
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
}
