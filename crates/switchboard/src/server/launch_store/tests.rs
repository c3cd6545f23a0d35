//! Tests of what is remembered of a launch between runs.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::store::MemoryStore;

const LAUNCH: Fingerprint = Fingerprint([7; 32]);

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn texts(offerings: &Offerings) -> [Vec<&str>; 4] {
    [
        offerings
            .tools
            .iter()
            .map(|tool| tool.raw.as_str())
            .collect(),
        offerings
            .prompts
            .iter()
            .map(|prompt| prompt.raw.as_str())
            .collect(),
        offerings
            .resources
            .iter()
            .map(|resource| resource.raw.as_str())
            .collect(),
        offerings
            .templates
            .iter()
            .map(|template| template.raw.as_str())
            .collect(),
    ]
}

/// S3-08: the remembered catalog is byte for byte the same, so that hashes and approvals still
/// match.
#[tokio::test]
async fn s3_08_a_catalog_is_remembered_byte_for_byte() {
    let tool = r#"{"name":"add","inputSchema":{"type":"object"},"x-unknown": 1.50}"#;
    let prompt = r#"{ "name":"greet" }"#;
    let resource = r#"{"uri":"demo://a","name":"a"}"#;
    let template = r#"{"uriTemplate":"demo://{x}","name":"x"}"#;
    let offerings = Offerings {
        tools: vec![Arc::new(ToolDefinition::parse(&raw(tool)).unwrap())],
        prompts: vec![Arc::new(PromptDefinition::parse(&raw(prompt)).unwrap())],
        resources: vec![Arc::new(ResourceDefinition::parse(&raw(resource)).unwrap())],
        templates: vec![Arc::new(TemplateDefinition::parse(&raw(template)).unwrap())],
        ..Offerings::default()
    };
    let store = Arc::new(MemoryStore::default());
    let launch_store = LaunchStore::new(store.clone(), LAUNCH);
    launch_store
        .clone()
        .store_offerings(Arc::new(offerings), Redactor::default())
        .await;

    let again = launch_store.offerings().await.unwrap();
    assert_eq!(
        texts(&again),
        [vec![tool], vec![prompt], vec![resource], vec![template]]
    );
    assert!(remembered_offerings(&*store, Fingerprint([8; 32])).is_none());
}

#[tokio::test]
async fn profiles_are_remembered_per_launch() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let profile = LaunchProfile {
        era: Some(Era::Legacy),
        asks: true,
        ..LaunchProfile::default()
    };
    LaunchStore::new(store.clone(), LAUNCH)
        .store_profile(profile.clone())
        .await;

    assert_eq!(
        LaunchStore::new(store.clone(), LAUNCH).profile().await,
        profile
    );
    assert_eq!(
        LaunchStore::new(store, Fingerprint([8; 32]))
            .profile()
            .await,
        LaunchProfile::default()
    );
}

#[tokio::test]
async fn an_unreadable_store_counts_as_empty() {
    let store = Arc::new(MemoryStore::default());
    for table in [StoreTable::Eras, StoreTable::Catalogs] {
        store.put(table, &LAUNCH.to_hex(), "[1").unwrap();
    }
    let launch_store = LaunchStore::new(store, LAUNCH);
    assert_eq!(
        launch_store.clone().profile().await,
        LaunchProfile::default()
    );
    assert!(launch_store.offerings().await.is_none());
}
