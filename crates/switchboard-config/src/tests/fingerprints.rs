//! Tests of fingerprints (T2): any change of a launch changes it; formatting and key order do not.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn server(endpoint: Endpoint, file: &str, scope: Scope) -> ServerConfig {
    ServerConfig::new(
        ServerName::new("a").unwrap(),
        Source::new(Arc::new(file.into()), 1, scope),
        endpoint,
    )
}

fn fingerprint(endpoint: &Endpoint) -> Fingerprint {
    server(endpoint.clone(), "/home/u/switchboard.toml", Scope::User).fingerprint()
}

fn secrets() -> impl Strategy<Value = IndexMap<String, Secret>> {
    proptest::collection::vec(("[A-C]{0,2}", "[a-b=]{0,2}"), 0..4).prop_map(|pairs| {
        pairs
            .into_iter()
            .map(|(name, value)| (name, Secret::new(value)))
            .collect()
    })
}

/// Few letters, so that ambiguous concatenations would be found.
fn endpoint() -> impl Strategy<Value = Endpoint> {
    let stdio = (
        "[ab/]{1,3}",
        proptest::collection::vec("[ab]{0,2}", 0..4),
        secrets(),
        any::<bool>(),
        proptest::option::of("[ab]{0,2}"),
    )
        .prop_map(|(command, args, env, inherit_env, cwd)| {
            Endpoint::Stdio(StdioEndpoint {
                env,
                inherit_env,
                cwd,
                ..StdioEndpoint::new(command, args)
            })
        });
    let wire = prop_oneof![
        Just(HttpTransportKind::Auto),
        Just(HttpTransportKind::Streamable),
        Just(HttpTransportKind::Sse)
    ];
    let secret = || proptest::option::of("[ab]{0,2}".prop_map(Secret::new));
    let text = || proptest::option::of("[ab]{0,2}");
    let client = (secret(), text(), secret(), text(), text(), text());
    let auth = (
        client,
        any::<bool>(),
        proptest::collection::vec("[ab]{0,2}", 0..3),
        proptest::option::of(1_u16..3),
    )
        .prop_map(
            |(
                (bearer_token, client_id, client_secret, client_key, client_metadata_url, issuer),
                alone,
                scopes,
                callback_port,
            )| {
                HttpAuth {
                    bearer_token,
                    grant: if alone {
                        OAuthGrant::ClientCredentials
                    } else {
                        OAuthGrant::AuthorizationCode
                    },
                    issuer,
                    client_id,
                    client_secret,
                    client_key,
                    client_metadata_url,
                    scopes,
                    callback_port,
                }
            },
        );
    let auth = prop_oneof![Just(HttpAuth::default()), auth];
    let http = ("[ab]{1,3}", secrets(), wire, auth).prop_map(|(url, headers, wire, auth)| {
        Endpoint::Http(HttpEndpoint {
            url,
            headers,
            wire,
            auth,
            syntax: ReferenceSyntax::Native,
        })
    });
    prop_oneof![stdio, http]
}

/// Every small change of one field.
fn mutations(endpoint: &Endpoint) -> Vec<Endpoint> {
    let changed_map = |map: &IndexMap<String, Secret>| {
        let mut all = Vec::new();
        let mut more = map.clone();
        more.insert("NEW".to_owned(), Secret::new(""));
        all.push(more);
        for index in 0..map.len() {
            let mut value = map.clone();
            value[index] = Secret::new(format!("{}x", map[index].expose()));
            let mut fewer = map.clone();
            let (name, secret) = fewer.shift_remove_index(index).unwrap();
            let mut renamed = fewer.clone();
            renamed.insert(format!("{name}x"), secret);
            all.extend([value, fewer, renamed]);
        }
        all
    };
    let mut all = Vec::new();
    match endpoint {
        Endpoint::Stdio(stdio) => {
            let mut add = |change: &dyn Fn(&mut StdioEndpoint)| {
                let mut changed = stdio.clone();
                change(&mut changed);
                all.push(Endpoint::Stdio(changed));
            };
            add(&|stdio| stdio.command.push('x'));
            add(&|stdio| stdio.unset.push(String::new()));
            add(&|stdio| stdio.inherit_env = !stdio.inherit_env);
            add(&|stdio| stdio.cwd = stdio.cwd.take().map_or(Some(String::new()), |_| None));
            add(&|stdio| stdio.cwd = Some(format!("{}x", stdio.cwd.take().unwrap_or_default())));
            add(&|stdio| stdio.args.push(String::new()));
            for index in 0..stdio.args.len() {
                add(&|stdio| stdio.args[index].push('x'));
                add(&|stdio| drop(stdio.args.remove(index)));
                if index > 0 && stdio.args[index] != stdio.args[index - 1] {
                    add(&|stdio| stdio.args.swap(index, index - 1));
                }
            }
            changed_map(&stdio.env)
                .into_iter()
                .for_each(|env| add(&|stdio| stdio.env = env.clone()));
            all.push(Endpoint::Http(HttpEndpoint {
                url: stdio.command.clone(),
                headers: stdio.env.clone(),
                ..HttpEndpoint::new("")
            }));
        }
        Endpoint::Http(http) => {
            let mut add = |change: &dyn Fn(&mut HttpEndpoint)| {
                let mut changed = http.clone();
                change(&mut changed);
                all.push(Endpoint::Http(changed));
            };
            add(&|http| http.url.push('x'));
            for wire in [
                HttpTransportKind::Auto,
                HttpTransportKind::Streamable,
                HttpTransportKind::Sse,
            ] {
                if wire != http.wire {
                    add(&|http| http.wire = wire);
                }
            }
            add(&|http| {
                http.auth.bearer_token = http
                    .auth
                    .bearer_token
                    .take()
                    .map_or(Some(Secret::new("")), |_| None)
            });
            add(&|http| {
                http.auth.client_id = http
                    .auth
                    .client_id
                    .take()
                    .map_or(Some(String::new()), |_| None)
            });
            add(&|http| {
                http.auth.client_secret = http
                    .auth
                    .client_secret
                    .take()
                    .map_or(Some(Secret::new("")), |_| None)
            });
            add(&|http| {
                http.auth.client_key = http
                    .auth
                    .client_key
                    .take()
                    .map_or(Some(String::new()), |_| None)
            });
            add(&|http| {
                http.auth.client_metadata_url = Some(format!(
                    "{}x",
                    http.auth.client_metadata_url.take().unwrap_or_default()
                ))
            });
            add(&|http| http.auth.scopes.push(String::new()));
            add(&|http| {
                http.auth.issuer = Some(format!("{}x", http.auth.issuer.take().unwrap_or_default()))
            });
            add(&|http| {
                http.auth.callback_port = Some(http.auth.callback_port.unwrap_or_default() + 1)
            });
            add(&|http| {
                http.auth.grant = match http.auth.grant {
                    OAuthGrant::AuthorizationCode => OAuthGrant::ClientCredentials,
                    OAuthGrant::ClientCredentials => OAuthGrant::AuthorizationCode,
                }
            });
            changed_map(&http.headers)
                .into_iter()
                .for_each(|headers| add(&|http| http.headers = headers.clone()));
        }
        Endpoint::Invalid(_) => unreachable!("not among those made"),
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn t2_a_change_of_any_one_field_changes_the_fingerprint(endpoint in endpoint()) {
        let before = fingerprint(&endpoint);
        for changed in mutations(&endpoint) {
            prop_assert_ne!(before, fingerprint(&changed), "{:?} and {:?}", endpoint, changed);
        }
    }

    #[test]
    fn t2_two_endpoints_share_a_fingerprint_only_if_they_are_equal(one in endpoint(), other in endpoint()) {
        prop_assert_eq!(fingerprint(&one) == fingerprint(&other), one == other);
    }

    #[test]
    fn t2_the_order_of_keys_does_not_matter(endpoint in endpoint()) {
        let mut reordered = endpoint.clone();
        match &mut reordered {
            Endpoint::Stdio(stdio) => stdio.env.reverse(),
            Endpoint::Http(http) => http.headers.reverse(),
            Endpoint::Invalid(_) => unreachable!("not among those made"),
        }
        prop_assert_eq!(fingerprint(&endpoint), fingerprint(&reordered));
    }
}

#[test]
fn t2_formatting_and_settings_that_do_not_affect_the_launch_do_not_matter() {
    let of = |text: &str| load_text(text, Scope::User).unwrap().servers[0].fingerprint();
    let one = of("[servers.a]\ncommand = 'x'\nargs = ['b', 'c']\nenv = { K = 'v', L = 'w' }\n");
    assert_eq!(
        one,
        of(
            "# a\n[servers.a.env]\nL = \"w\"\nK = \"v\"\n[servers.a]\nargs = [ \"b\",\n \"c\", ]\ncommand = \"\"\"x\"\"\"\n"
        )
    );
    assert_eq!(
        one,
        of(
            "servers.a = { args = ['b', 'c'], env = { K = 'v', L = 'w' }, command = 'x', call_timeout = '1s', exclude_tools = ['d'], start = 'lazy' }"
        )
    );
}

#[test]
fn t2_the_folder_counts_if_it_determines_what_runs_and_for_every_project() {
    let same_elsewhere = |command: &str, cwd: Option<&str>, scope: Scope| {
        let endpoint = Endpoint::Stdio(StdioEndpoint {
            cwd: cwd.map(str::to_owned),
            ..StdioEndpoint::new(command, [""; 0])
        });
        let at = |file: &str| server(endpoint.clone(), file, scope).fingerprint();
        at("/one/switchboard.toml") == at("/two/switchboard.toml")
    };
    assert!(same_elsewhere("npx", None, Scope::User));
    assert!(same_elsewhere("/opt/x", Some("/tmp"), Scope::Given));
    assert!(!same_elsewhere("./x", None, Scope::User));
    assert!(!same_elsewhere("${DIR}", None, Scope::User));
    assert!(!same_elsewhere("npx", Some("sub"), Scope::Given));
    assert!(
        !same_elsewhere("npx", None, Scope::Project),
        "what one project was granted, another was not"
    );
}

/// The same entry in another format is the same launch, unless a `$` has another meaning.
#[test]
fn t2_the_format_does_not_count_and_the_syntax_only_if_a_dollar_differs() {
    let folder = tempfile::tempdir().unwrap();
    let fingerprint = |name: &str, dialect: Dialect, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let file = ConfigFile {
            dialect: Some(dialect),
            ..ConfigFile::new(path, Scope::Project)
        };
        load(&[file]).unwrap().servers[0].fingerprint()
    };
    let toml = |fields: &str| {
        fingerprint(
            "switchboard.toml",
            Dialect::Native,
            &format!("[servers.x]\n{fields}\n"),
        )
    };
    let json = |dialect: Dialect, fields: &str| {
        let container = if dialect == Dialect::CoreAgent {
            "servers"
        } else {
            "mcpServers"
        };
        fingerprint(
            "x.json",
            dialect,
            &format!("{{\"{container}\": {{\"x\": {{{fields}}}}}}}"),
        )
    };
    let native =
        toml("command = 'npx'\nargs = ['-y', 'x']\nenv = { B = '${T}', A = '1' }\ncwd = 'sub'");
    let shared =
        r#""env": {"A": "1", "B": "${T}"}, "args": ["-y", "x"], "cwd": "sub", "command": "npx""#;
    assert_eq!(json(Dialect::McpJson, shared), native);
    let native =
        toml("url = 'https://x.example/mcp'\nheaders = { A = 'Bearer ${T}' }\ntransport = 'http'");
    assert_eq!(
        json(
            Dialect::McpJson,
            r#""type": "http", "url": "https://x.example/mcp", "headers": {"A": "Bearer ${T}"}"#
        ),
        native
    );
    assert_eq!(
        json(
            Dialect::Gemini,
            r#""httpUrl": "https://x.example/mcp", "headers": {"A": "Bearer ${T}"}"#
        ),
        native
    );
    let plain = toml("url = 'https://x.example/mcp'\nheaders = { A = 'b' }\ntransport = 'http'");
    let core_agent =
        r#""transport": "http", "url": "https://x.example/mcp", "headers": {"A": "b"}"#;
    assert_eq!(json(Dialect::CoreAgent, core_agent), plain);

    // A bare name is a reference in one and literal in the other.
    let bare = toml("url = 'https://x.example/mcp'\nheaders = { A = '$T' }\ntransport = 'http'");
    assert_ne!(
        json(
            Dialect::Gemini,
            r#""httpUrl": "https://x.example/mcp", "headers": {"A": "$T"}"#
        ),
        bare
    );
    let doubled = toml("url = 'https://x.example/mcp'\nheaders = { A = '$$' }\ntransport = 'http'");
    assert_ne!(
        json(
            Dialect::McpJson,
            r#""type": "http", "url": "https://x.example/mcp", "headers": {"A": "$$"}"#
        ),
        doubled
    );
}
