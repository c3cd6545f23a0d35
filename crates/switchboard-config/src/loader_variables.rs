//! Environment variables that decide which code, programs or configuration a program loads.
//!
//! A variable is recognised by a word in its name, or by the family of variables it belongs to
//! (those of an interpreter, a loader, a build tool).

/// What a category of variables does, its names, and the prefixes of its families.
struct Category {
    effect: &'static str,
    names: &'static str,
    families: &'static str,
}

const CATEGORIES: &[Category] = &[
    Category {
        effect: "decides which programs are found and run",
        names: "PATH PATHEXT COMSPEC SHELL VISUAL BROWSER LESSOPEN LESSCLOSE DOCKER_HOST DOCKER_CONTEXT CONTAINER_HOST",
        families: "",
    },
    Category {
        effect: "moves the folders in which programs look for their settings",
        names: "HOME USERPROFILE APPDATA LOCALAPPDATA TERMINFO TERMINFO_DIRS TERMCAP",
        families: "XDG_",
    },
    Category {
        effect: "makes the loader or a library take code from elsewhere",
        names: "SSLKEYLOGFILE SSL_CERT_FILE SSL_CERT_DIR",
        families: "LD_ DYLD_ GLIBC_ GCONV_ OPENSSL_ GTK_ QT_ GIO_ GDK_ GST_ VK_ LIBGL_ NIX_",
    },
    Category {
        effect: "makes a shell run other code",
        names: "ENV SHELLOPTS PS4 PROMPT_COMMAND IFS ZDOTDIR",
        families: "BASH",
    },
    Category {
        effect: "decides what Node and its package managers find or run",
        names: "",
        families: "NODE_ NPM_CONFIG_ YARN_ PNPM_ BUN_ DENO_ COREPACK_ VOLTA_ NVM_ FNM_ ELECTRON_ TS_NODE_",
    },
    Category {
        effect: "decides what Python and its package managers find or run",
        names: "VIRTUAL_ENV",
        families: "PYTHON PYENV_ PYTEST_ PIP_ PIPX_ PIPENV_ UV_ POETRY_ PDM_ CONDA_ MAMBA_ SETUPTOOLS_",
    },
    Category {
        effect: "decides what Ruby or Perl find or run",
        names: "",
        families: "RUBY RBENV_ GEM_ BUNDLE_ BUNDLER_ PERL",
    },
    Category {
        effect: "decides what Java finds or runs",
        names: "",
        families: "JAVA_ _JAVA_ JDK_ JVM_ MAVEN_ MVN_ M2_ GRADLE_ SBT_ ANT_",
    },
    Category {
        effect: "decides what .NET finds or runs",
        names: "",
        families: "DOTNET_ CORECLR_ COR_ NUGET_ MSBUILD PSMODULE",
    },
    Category {
        effect: "decides what its interpreter finds or runs",
        names: "",
        families: "PHP COMPOSER_ LUA_ R_ JULIA_ ERL_ ELIXIR_ MIX_ GHC_ OCAML CAML_ TCL GUILE_ EMACS",
    },
    Category {
        effect: "decides what git runs or works on",
        names: "",
        families: "GIT_",
    },
    Category {
        effect: "decides what a build finds or runs",
        names: "CC CXX LD AR AS MAKEFILES",
        families: "CARGO_ RUSTC RUSTUP_ RUSTDOC CGO_ GCC_ CMAKE_ PKG_CONFIG",
    },
];

/// Members of a family that decide nothing about code.
const HARMLESS: &str = "NODE_ENV NODE_NO_WARNINGS NODE_DEBUG NODE_DISABLE_COLORS PYTHONUNBUFFERED PYTHONIOENCODING PYTHONUTF8 \
    PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONFAULTHANDLER PYTHONASYNCIODEBUG PYTHONNOUSERSITE PYTHONSAFEPATH PYTHONOPTIMIZE \
    DOTNET_ENVIRONMENT DOTNET_NOLOGO";
/// Families without harmless members: their URLs and names decide where packages come from.
const PACKAGE_MANAGERS: &str =
    "NPM_CONFIG_ PIP_ UV_ YARN_ PNPM_ CARGO_ GEM_ BUNDLE_ NUGET_ COMPOSER_";
const HARMLESS_FAMILIES: &str = "GIT_AUTHOR_ GIT_COMMITTER_";
/// Last words of names that are harmless within a family.
const HARMLESS_WORDS: &str = "TOKEN KEY SECRET PASSWORD USER USERNAME EMAIL URL HOST PORT TIMEOUT";

/// What a variable decides; `None` for an ordinary one.
pub(crate) fn effect(name: &str) -> Option<&'static str> {
    // npm accepts its variables in any case and with hyphens.
    let name = name.to_ascii_uppercase().replace(['-', '.'], "_");
    by_word(&name).or_else(|| by_category(&name))
}

fn by_category(name: &str) -> Option<&'static str> {
    let found = CATEGORIES
        .iter()
        .find(|category| has(category.names, name) || begins(category.families, name));
    let found = found
        .map(|category| category.effect)
        .or_else(|| is_go(name).then_some("decides what Go finds or runs"))?;
    let last = name.rsplit('_').next().unwrap_or_default();
    let whole_family = begins(PACKAGE_MANAGERS, name)
        || CATEGORIES.iter().any(|category| has(category.names, name));
    let harmless =
        has(HARMLESS, name) || begins(HARMLESS_FAMILIES, name) || has(HARMLESS_WORDS, last);
    (whole_family || !harmless).then_some(found)
}

/// `GOPATH`, `GOFLAGS`, `GO111MODULE`: Go's variables are one word.
fn is_go(name: &str) -> bool {
    name.len() > 3 && name.starts_with("GO") && !name.contains('_') && !name.starts_with("GOOGLE")
}

/// Recognises a variable by the words of its name, for any program.
fn by_word(name: &str) -> Option<&'static str> {
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let last = *words.last()?;
    let before = words.iter().rev().nth(1).copied().unwrap_or_default();
    let ends = |endings: &str| {
        endings
            .split_whitespace()
            .any(|ending| last.ends_with(ending))
    };
    let is_place = has("PATH DIR FILE HOME DIRS PATHS FILES", last);
    if ends("WRAPPER LAUNCHER ASKPASS EDITOR PAGER")
        || has(
            "SHELL COMMAND CMD EXECUTABLE INTERPRETER COMPILER HOOK HOOKS",
            last,
        )
    {
        return Some("names a program that is run");
    }
    if is_place
        && has(
            "EXEC EXECUTABLE BIN BINARY CHROME CHROMIUM BROWSER BROWSERS PYTHON NODE JAVA COMPILER SCRIPT SCRIPTS",
            before,
        )
        || words.contains(&"LAUNCH") && has("OPTIONS ARGS", last)
    {
        return Some("names a program that is run");
    }
    if words.iter().any(|word| has("PRELOAD PLUGIN PLUGINS", word))
        || has("MODULE MODULES LIBS LIBPATH LIBDIR", last)
        || is_place
            && has(
                "LIB LIBRARY LIBRARIES MODULE MODULES INCLUDE LOAD PACKAGE PACKAGES CLASS DRIVER DRIVERS SEARCH",
                before,
            )
        || ends("PATH") && words.len() == 1 && last.len() > 4 && !has("FILEPATH DBPATH", last)
        || has("CA_BUNDLE CA_CERTS", &format!("{before}_{last}"))
    {
        return Some("decides which code is found or loaded");
    }
    if has("OPTS ADDOPTS TOOLCHAIN", last)
        || ends("FLAGS") && last != "FLAGS"
        || before.ends_with("SAN") && last == "OPTIONS"
    {
        return Some("passes options that decide which code is run");
    }
    if ends("CONFIG CONFIGDIR RCFILE")
        || has("CONF HOME", last)
        || is_place && has("CONFIG CONF RC SETTINGS", before)
        || words.len() == 1 && last.len() > 4 && ends("RC")
    {
        return Some("decides which configuration is read");
    }
    None
}

fn has(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|other| other == word)
}

fn begins(starts: &str, name: &str) -> bool {
    starts
        .split_whitespace()
        .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of every category; the tests of the host use the same list.
    const REFUSED: &str = include_str!("../tests/refused-variables.txt");

    #[test]
    fn t5_variables_that_decide_which_code_is_loaded_are_refused() {
        for name in REFUSED.split_whitespace() {
            assert!(effect(name).is_some(), "{name}");
        }
    }

    /// Ordinary variables of servers: credentials, addresses, levels, and their data.
    #[test]
    fn t5_ordinary_variables_are_not_refused() {
        let ordinary = "GITHUB_TOKEN GITHUB_PERSONAL_ACCESS_TOKEN GITHUB_TOOLSETS API_KEY OPENAI_API_KEY ANTHROPIC_API_KEY GIT_TOKEN \
            GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL GOOGLE_API_KEY GOOGLE_APPLICATION_CREDENTIALS GOOGLE_CLOUD_PROJECT BRAVE_API_KEY \
            SLACK_BOT_TOKEN SLACK_TEAM_ID DATABASE_URL DB_PATH SQLITE_PATH MEMORY_FILE_PATH ALLOWED_PATHS PATHS WORKSPACE_ROOT \
            PROJECT_ROOT VAULT_PATH DATA_DIR CACHE_DIR LOG_LEVEL LOG_FILE OUTPUT_DIR NODE_ENV NODE_RPC_URL PYTHONUNBUFFERED DEBUG \
            PORT HOST REGION AWS_REGION PINECONE_INDEX TABLE_PREFIX SCHEMA_REGISTRY AWS_PROFILE AWS_ACCESS_KEY_ID LDAP_HOST RUST_LOG RUST_BACKTRACE FEATURE_FLAGS TZ LANG é \
            PGHOST PGPASSWORD REDIS_URL SENTRY_AUTH_TOKEN NOTION_TOKEN OPENAPI_MCP_HEADERS TRANSPORT FASTMCP_LOG_LEVEL TIMEOUT_MS \
            MCP_TRANSPORT ENVIRONMENT APP_ENV BROWSER_HEADLESS CLASSIFIER GOAL_ID ANTENNA_ID UVICORN_PORT http_proxy NO_PROXY";
        for name in ordinary.split_whitespace() {
            assert_eq!(effect(name), None, "{name}");
        }
    }
}
