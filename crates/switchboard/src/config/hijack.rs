//! Variables that decide what code a program loads or runs, whatever its command says (T5).

/// Exact names, and names that end in `*` for all that begin so; with what they do.
const TABLE: &[(&str, &[&str])] = &[
    ("decides which programs are found", &["PATH", "PATHEXT", "COMSPEC", "SHELL", "GIT_EXEC_PATH"]),
    (
        "moves the folders in which programs look for their own settings",
        &["HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "APPDATA"],
    ),
    ("makes the loader take code from elsewhere", &["LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH"]),
    (
        "makes Node run or find other code",
        &["NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "NODE_EXTRA_CA_CERTS", "ELECTRON_RUN_AS_NODE", "BUN_OPTIONS"],
    ),
    (
        "makes npm run or find other code",
        &[
            "NPM_CONFIG_NODE_OPTIONS",
            "NPM_CONFIG_SCRIPT_SHELL",
            "NPM_CONFIG_SHELL",
            "NPM_CONFIG_PREFIX",
            "NPM_CONFIG_GLOBALCONFIG",
            "NPM_CONFIG_USERCONFIG",
            "NPM_CONFIG_INIT_MODULE",
        ],
    ),
    (
        "makes Python run or find other code",
        &[
            "PYTHONPATH",
            "PYTHONHOME",
            "PYTHONSTARTUP",
            "PYTHONINSPECT",
            "PYTHONUSERBASE",
            "PYTHONEXECUTABLE",
            "PYTHONBREAKPOINT",
            "PYTHONWARNINGS",
            "PYTHONPLATLIBDIR",
            "PYTHONPYCACHEPREFIX",
            "VIRTUAL_ENV",
        ],
    ),
    ("makes Perl run or find other code", &["PERL5LIB", "PERL5OPT", "PERL5DB", "PERLLIB"]),
    ("makes Ruby run or find other code", &["RUBYOPT", "RUBYLIB", "GEM_PATH", "GEM_HOME", "BUNDLE_GEMFILE"]),
    (
        "makes a shell run other code",
        &["BASH_ENV", "BASH_FUNC_*", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS", "ZDOTDIR"],
    ),
    ("makes Java run or find other code", &["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"]),
    (
        "makes .NET run or find other code",
        &["DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "CORECLR_*", "COR_*"],
    ),
    ("makes PHP run or find other code", &["PHPRC", "PHP_INI_SCAN_DIR"]),
    ("makes Lua run or find other code", &["LUA_INIT*", "LUA_PATH*", "LUA_CPATH*"]),
    ("makes R or Julia run or find other code", &["R_PROFILE*", "R_ENVIRON*", "R_LIBS*", "JULIA_LOAD_PATH", "JULIA_DEPOT_PATH"]),
    (
        "makes git run other programs",
        &[
            "GIT_SSH*",
            "GIT_CONFIG*",
            "GIT_ASKPASS",
            "GIT_EDITOR",
            "GIT_SEQUENCE_EDITOR",
            "GIT_PAGER",
            "GIT_EXTERNAL_DIFF",
            "GIT_PROXY_COMMAND",
            "GIT_TEMPLATE_DIR",
        ],
    ),
    (
        "names a program that others run",
        &["SSH_ASKPASS", "SUDO_ASKPASS", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "LESSOPEN", "LESSCLOSE"],
    ),
    ("makes TLS load other code or tell its keys", &["OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "SSLKEYLOGFILE"]),
    (
        "makes a build run other programs",
        &["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTC", "GOFLAGS", "MAKEFLAGS", "CARGO_HOME"],
    ),
    ("sends containers to another machine", &["DOCKER_HOST", "DOCKER_CONFIG", "CONTAINER_HOST"]),
];

/// What a variable does to a program that gets it; `None` for an ordinary one.
pub(crate) fn effect(name: &str) -> Option<&'static str> {
    // npm reads its own in any case.
    let npm = name.get(.."npm_config_".len()).is_some_and(|start| start.eq_ignore_ascii_case("npm_config_"));
    let name = if npm { name.to_ascii_uppercase().replace('-', "_") } else { name.to_owned() };
    TABLE.iter().find(|(_, names)| names.iter().any(|pattern| matches(pattern, &name))).map(|(what, _)| *what)
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// Every name of the table, for tests that must hold for each; a group's `*` filled in.
#[cfg(test)]
pub(crate) fn every_name() -> Vec<String> {
    TABLE.iter().flat_map(|(_, names)| names.iter()).map(|name| name.replace('*', "X")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t5_loader_variables_are_known_and_ordinary_ones_are_not() {
        let known = "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES NODE_OPTIONS NODE_PATH PYTHONPATH PYTHONSTARTUP \
                     PYTHONHOME PERL5LIB PERL5OPT RUBYOPT RUBYLIB BASH_ENV ENV JAVA_TOOL_OPTIONS _JAVA_OPTIONS GIT_SSH GIT_SSH_COMMAND \
                     PATH npm_config_node_options npm_config_script-shell";
        for name in known.split_whitespace() {
            assert!(effect(name).is_some(), "{name}");
        }
        for name in ["GITHUB_TOKEN", "API_KEY", "LDAP_HOST", "PATHS", "NODE_ENV", "PYTHONUNBUFFERED", "npm_config_registry", "é"]
        {
            assert_eq!(effect(name), None, "{name}");
        }
    }
}
