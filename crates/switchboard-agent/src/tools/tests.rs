use super::search::search;
use super::*;

fn spec(server: &str, name: &str, description: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        server: server.to_owned(),
        tool: String::new(),
        description: description.to_owned(),
        schema: JsonText::parse(r#"{"type":"object","properties":{}}"#).expect("JSON"),
    }
}

fn names<'a>(specs: impl Iterator<Item = &'a ToolSpec>) -> Vec<&'a str> {
    specs.map(|spec| spec.name.as_str()).collect()
}

#[test]
fn tools_are_appended_and_never_move() {
    let mut list = ToolList::new(None);
    let (a, b, c) = (spec("s", "a", ""), spec("s", "b", ""), spec("s", "c", ""));
    let change = list.update(vec![c.clone(), a.clone()], |_| false);
    assert_eq!(change.added, ["c", "a"]);
    list.start();
    let change = list.update(vec![a.clone(), b.clone()], |_| false);
    assert_eq!(
        (change.added, change.removed),
        (vec!["b".to_owned()], vec!["c".to_owned()])
    );
    assert_eq!(names(list.loaded()), ["c", "a", "b"]);
    assert_eq!(names(list.initial()), ["c", "a"]);
    assert!(list.is_late("b") && !list.is_late("a"));
    assert_eq!(list.load("c"), Err(LoadError::Gone("c".to_owned())));

    let mut changed = b.clone();
    changed.description = "new".to_owned();
    let change = list.update(vec![changed, a, c], |_| false);
    assert_eq!(
        (change.added, change.changed),
        (vec!["c".to_owned()], vec!["b".to_owned()])
    );
    assert_eq!(names(list.loaded()), ["c", "a", "b"]);
    assert_eq!(list.load("c"), Ok(false));
}

#[test]
fn tools_past_the_vendors_limit_are_deferred() {
    let mut list = ToolList::new(Some(2));
    let specs = ["a", "b", "c"].map(|name| spec("s", name, ""));
    list.update(specs.to_vec(), |_| false);
    assert_eq!(names(list.loaded()), ["a", "b"]);
    assert_eq!(names(list.deferred()), ["c"]);
    let full = LoadError::TooMany {
        name: "c".to_owned(),
        limit: 2,
    };
    assert_eq!(list.load("c"), Err(full));
    assert_eq!(list.load("d"), Err(LoadError::Unknown("d".to_owned())));
    let openai = ModelSettings::new(ModelVendor::OpenAi, "gpt-5");
    assert_eq!(vendor_tool_limit(&openai), Some(128));
    let gemini = ModelSettings::new(ModelVendor::Gemini, "gemini-3");
    assert_eq!(vendor_tool_limit(&gemini), Some(512));
}

#[test]
fn names_of_deferred_tools_are_listed_by_server() {
    let mut list = ToolList::new(None);
    let specs = vec![
        spec("git", "log", ""),
        spec("web", "get", ""),
        spec("git", "diff", ""),
    ];
    list.update(specs, |_| true);
    assert_eq!(list.deferred_names(), "git: log, diff\nweb: get");
    assert_eq!(list.load("get"), Ok(true));
    assert_eq!(list.deferred_names(), "git: log, diff");
}

#[test]
fn a_list_with_treatments_leaves_out_and_loosens() {
    let mut list = ToolList::new(None);
    let mut strict = spec("s", "b", "");
    let schema = r#"{"type":"object","properties":{"p":{"type":"string","pattern":"x"}}}"#;
    strict.schema = JsonText::parse(schema).expect("JSON");
    list.update(vec![spec("s", "a", ""), strict, spec("s", "c", "")], |_| {
        false
    });
    list.start();
    let words = String::new();
    let treated = list.with_treatments(|spec| match spec.name.as_str() {
        "a" => Some(ToolTreatment::Withheld {
            words: words.clone(),
        }),
        "b" => Some(ToolTreatment::Loosened {
            words: words.clone(),
        }),
        _ => None,
    });
    assert_eq!(names(treated.loaded()), ["b", "c"]);
    assert_eq!(names(treated.initial()), ["b", "c"]);
    let loosened = treated.loaded().next().expect("b").schema.as_str();
    assert!(!loosened.contains("pattern"), "{loosened}");
    assert_eq!(names(list.loaded()), ["a", "b", "c"]);
}

#[test]
fn search_finds_exact_names_first_then_parts_then_words() {
    let mut list = ToolList::new(None);
    let specs = vec![
        spec("files", "read_file", "Reads the content of a file"),
        spec("files", "read_file_lines", "Reads some lines of a file"),
        spec("git", "git_commit", "Records changes; reads no file"),
        spec("web", "fetch", "Downloads a page"),
        spec("gone", "read", "Reads"),
    ];
    list.update(specs.clone(), |_| true);
    list.update(specs[..4].to_vec(), |_| true);
    let find = |names_wanted: &[&str], query: &str| {
        let wanted: Vec<String> = names_wanted.iter().map(|&name| name.to_owned()).collect();
        names(search(&list, &wanted, query).into_iter()).join(" ")
    };
    assert_eq!(find(&["fetch", "nothing"], ""), "fetch");
    assert_eq!(
        find(&[], "read_file"),
        "read_file read_file_lines git_commit"
    );
    assert_eq!(
        find(&[], "READ_FILE_LINES"),
        "read_file_lines read_file git_commit"
    );
    assert_eq!(find(&[], "downloading pages"), "fetch");
    assert_eq!(find(&[], "committing"), "");
    assert_eq!(find(&[], "commit"), "git_commit");
    assert_eq!(find(&[], "read"), "read_file read_file_lines git_commit");
    assert_eq!(find(&["git_commit"], "fetch"), "git_commit fetch");
}
