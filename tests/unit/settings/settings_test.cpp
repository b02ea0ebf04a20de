#include <sepal/settings/settings.hpp>

#include <initializer_list>
#include <regex>

#include "support/catch.hpp"
#include "temporary_file.hpp"

namespace sepal::settings::settings_test {
namespace {

using test::TemporaryFile;

Result<Invocation> read(std::initializer_list<std::string> arguments) {
  return read_invocation(std::vector<std::string>(arguments), "sepald 1.2.3");
}

Settings settings_of(std::initializer_list<std::string> arguments) {
  auto invocation = read(arguments);
  if (!invocation) FAIL(invocation.error().detail);
  return invocation->settings;
}

std::string error_of(std::initializer_list<std::string> arguments) {
  const auto invocation = read(arguments);
  return invocation ? "no error" : invocation.error().detail;
}

// The error of a file with this text, without the directory.
std::string file_error(const std::string& text) {
  const TemporaryFile file(text);
  std::string error = error_of({"--config", file.path()});
  const std::string prefix = file.directory().string() + "/";
  if (const auto at = error.find(prefix); at != std::string::npos) error.erase(at, prefix.size());
  return error;
}

TEST_CASE("without arguments the defaults apply, with one worker for each core") {
  const Settings settings = settings_of({});
  CHECK(differences_from_defaults(settings).empty());
  CHECK(settings.server.worker_count == std::max(1u, std::thread::hardware_concurrency()));
  CHECK(settings.server.port == 6379);
  CHECK(settings.config_file.empty());
}

TEST_CASE("a flag overrides the file, and the file overrides the default") {
  const TemporaryFile file("port = 7000\nmaxclients = 5\n");
  const Settings settings = settings_of({"--port", "7001", "--config", file.path()});
  CHECK(settings.server.port == 7001);
  CHECK(settings.runtime.clients_max == 5);
  CHECK(settings.server.listen_backlog == 511);
  CHECK(settings.config_file == file.path());
}

TEST_CASE("the last value of a repeated flag counts") {
  CHECK(settings_of({"--port", "1", "--port=2"}).server.port == 2);
}

TEST_CASE("every flag reaches its field") {
  // clang-format off
  const Settings s = settings_of({
      "--bind", "0.0.0.0 ::1,-fe80::1%eth0", "--threads", "3", "--dir", "/var/lib/sepal", "--save-interval",
      "5m", "--maxmemory", "64MB", "--maxclients", "9", "--requirepass", "secret", "--unixsocket",
      "/run/sepal.sock", "--unixsocket-mode", "0660", "--log-level", "debug", "--log-format", "json",
      "--log-file", "/tmp/log", "--timeout", "90", "--tcp-keepalive", "1h", "--backlog", "7",
      "--item-bytes-max", "1mb", "--request-bytes-max", "2m", "--request-arguments-max", "100",
      "--line-bytes-max", "2kb", "--output-bytes-max", "1gb", "--keys-max", "11", "--layers-max", "12",
      "--bf-error-rate", "1e-3", "--bf-capacity", "1000", "--bf-expansion", "4", "--seed",
      "18446744073709551615", "--journal", "always", "--import-dir", "/var/lib/imports",
      "--journal-segment", "4mb", "--journal-save-percent", "30", "--journal-save-min", "1mb",
      "--stop-seconds-max", "2d"});
  // clang-format on
  CHECK(s.server.bind == std::vector<std::string>{"0.0.0.0", "::1", "-fe80::1%eth0"});
  CHECK(s.server.worker_count == 3);
  CHECK(s.data_directory == "/var/lib/sepal");
  CHECK(s.import_directory == "/var/lib/imports");
  CHECK(s.runtime.save_interval == std::chrono::seconds(300));
  CHECK(s.runtime.journal == keyspace::JournalPolicy::always);
  CHECK(s.runtime.journal_when_on == keyspace::JournalPolicy::always);
  CHECK(s.journal_segment_bytes == 4u << 20);
  CHECK(s.runtime.journal_save_percent == 30);
  CHECK(s.runtime.journal_save_min_bytes == 1u << 20);
  CHECK(s.keyspace.memory_max == 64u << 20);
  CHECK(s.runtime.clients_max == 9);
  CHECK(s.runtime.password == "secret");
  CHECK(s.server.unix_socket == "/run/sepal.sock");
  CHECK(s.server.unix_socket_mode == 0660);
  CHECK(s.runtime.log_level == command::LogLevel::debug);
  CHECK(s.log.format == LogFormat::json);
  CHECK(s.log.file == "/tmp/log");
  CHECK(s.runtime.idle_timeout == std::chrono::seconds(90));
  CHECK(s.runtime.tcp_keepalive == std::chrono::hours(1));
  CHECK(s.server.listen_backlog == 7);
  CHECK(s.runtime.parser.bulk_bytes_max == 1u << 20);
  CHECK(s.runtime.parser.request_bytes_max == 2'000'000);
  CHECK(s.runtime.parser.argument_count_max == 100);
  CHECK(s.runtime.parser.line_bytes_max == 2048);
  CHECK(s.runtime.output_bytes_max == 1u << 30);
  CHECK(s.keyspace.keys_max == 11);
  CHECK(s.keyspace.layers_max == 12);
  CHECK(s.keyspace.error_rate == 0.001);
  CHECK(s.keyspace.capacity == 1000);
  CHECK(s.keyspace.expansion == 4);
  CHECK(s.seed == 18446744073709551615ull);
  CHECK(s.stop_seconds_max == 172800);
}

TEST_CASE("the text of a flag is taken unchanged, whatever it looks like") {
  for (const std::string password :
       {"[a,b]", "\"quoted\"", "'single'", "{}", "a b", "-x", "%%", "=", "#x", "\\n"}) {
    CHECK(settings_of({"--requirepass=" + password}).runtime.password == password);
    CHECK(settings_of({"--requirepass", password}).runtime.password == password);
  }
  CHECK(settings_of({"--log-file", ""}).log.file.empty());
}

TEST_CASE("sizes are shown as they are written: with the largest unit") {
  CHECK(differences_from_defaults(settings_of({"--maxmemory", "4GiB", "--journal-size-max", "2tb"})) ==
        std::vector<std::string>{"journal_size_max = \"2tb\" (default \"512mb\")",
                                 "maxmemory = \"4gb\" (default 0)"});
  const std::string line = differences_from_defaults(settings_of({"--maxmemory", "50%"})).front();
  CHECK(std::regex_match(line, std::regex("maxmemory = \"[0-9]+[mgt]b\" \\(default 0\\)")));
}

TEST_CASE("a file may have numbers, texts with units, arrays and octal permissions") {
  const TemporaryFile file(
      "bind = [\"127.0.0.1\",\n  \"::1\"]\nunixsocket_mode = 0o660\nmaxmemory = 1_048_576\noutput_bytes_max "
      "= \"2K\"\n"
      "timeout = 5\nsave_interval = \"2M\"\nbf_error_rate = 0.25\nseed = 0xff\nrequirepass = 'a\"b'\nthreads "
      "= 2\n");
  const Settings s = settings_of({"--config", file.path()});
  CHECK(s.server.bind == std::vector<std::string>{"127.0.0.1", "::1"});
  CHECK(s.server.unix_socket_mode == 0660);
  CHECK(s.keyspace.memory_max == 1048576);
  CHECK(s.runtime.output_bytes_max == 2000);
  CHECK(s.runtime.idle_timeout == std::chrono::seconds(5));
  CHECK(s.runtime.save_interval == std::chrono::minutes(2));
  CHECK(s.keyspace.error_rate == 0.25);
  CHECK(s.seed == 255);
  CHECK(s.runtime.password == "a\"b");
  CHECK(s.server.worker_count == 2);
}

TEST_CASE("the error for an unknown setting names its line and a likely setting") {
  CHECK(file_error("port = 1\n\nprot = 6380\n") ==
        "sepald.toml:3: unknown setting 'prot'; did you mean 'port'?");
  CHECK(file_error("save-interval = 1\n") ==
        "sepald.toml:1: unknown setting 'save-interval'; did you mean 'save_interval'?");
  CHECK(file_error("proto-max-bulk-len = 1\n") ==
        "sepald.toml:1: unknown setting 'proto-max-bulk-len'; did you mean 'item_bytes_max'?");
  CHECK(file_error("appendonly = true\n") ==
        "sepald.toml:1: unknown setting 'appendonly'; did you mean 'journal'?");
  CHECK(file_error("# x\n[server]\nport = 1\n") ==
        "sepald.toml:2: unknown setting 'server'; settings stand at the top of the file, without [sections]");
}

TEST_CASE("the error for a value of the wrong kind says what was found and what is allowed") {
  CHECK(file_error("port = \"abc\"") ==
        "sepald.toml:1: port is the text \"abc\": must be a whole number between 0 and 65535");
  CHECK(file_error("port = 1.5") == "sepald.toml:1: port is 1.5: must be a whole number between 0 and 65535");
  CHECK(file_error("\ndir = 7") ==
        "sepald.toml:2: dir is 7: must be a text of 1 to 4095 bytes without NUL; a text stands in double "
        "quotes");
  CHECK(file_error("timeout = true") ==
        "sepald.toml:1: timeout is true: must be seconds, as in 90, \"5m\" or \"1h\", between 0 and "
        "2147483647");
  CHECK(file_error("maxmemory = \"64 parsecs\"").find("is the text \"64 parsecs\": must be bytes") !=
        std::string::npos);
  CHECK(file_error("unixsocket_mode = 700") ==
        "sepald.toml:1: unixsocket_mode is 700: must be permissions in octal, as in \"700\", between 0 and "
        "777");
  CHECK(file_error("bind = [\"127.0.0.256\"]") ==
        "sepald.toml:1: bind is an array: must be at most 16 addresses or host names, as in \"127.0.0.1\", "
        "\"::1\" or \"*\"; \"127.0.0.256\" is no address");
  CHECK(file_error("bind = [\"127.0.0.1\\u0000x\"]")
            .ends_with("; \"127.0.0.1\\u0000x\" is no address and no host name"));
  CHECK(file_error("log_level = \"loud\"") ==
        "sepald.toml:1: log_level is the text \"loud\": must be one of trace debug info warning error");
  CHECK(file_error("tls_protocols = \"TLSv1.1\"") ==
        "sepald.toml:1: tls_protocols is the text \"TLSv1.1\": must be one of \"TLSv1.2 TLSv1.3\" TLSv1.2 "
        "TLSv1.3");
  CHECK(file_error("seed = -1") ==
        "sepald.toml:1: seed is -1: must be \"auto\" or a whole number of at most 64 bits");
  CHECK(file_error("bf_error_rate = nan").find("bf_error_rate is nan: must be a number") !=
        std::string::npos);
  CHECK(file_error("log_file = \"a\\u0000b\"").find("without NUL") != std::string::npos);
}

TEST_CASE("the error for a text without quotes names the setting and shows the line to write") {
  CHECK(file_error("port = 1\nmaxmemory = 2gb # of 4\n") ==
        "sepald.toml:2: maxmemory is 2gb: a text stands in double quotes, as in maxmemory = \"2gb\"");
  CHECK(file_error("bind = 127.0.0.1") ==
        "sepald.toml:1: bind is 127.0.0.1: a text stands in double quotes, as in bind = \"127.0.0.1\"");
  CHECK(file_error("dir = /var/lib/sepal") ==
        "sepald.toml:1: dir is /var/lib/sepal: a text stands in double quotes, as in dir = "
        "\"/var/lib/sepal\"");
  CHECK(file_error("unixsocket_mode = 0770") ==
        "sepald.toml:1: unixsocket_mode is 0770: a text stands in double quotes, as in unixsocket_mode = "
        "\"0770\"");
  CHECK(
      file_error("protected_mode = false") ==
      "sepald.toml:1: protected_mode is false: must be one of no yes; a text stands in double quotes, as in "
      "protected_mode = \"no\"");
  CHECK(file_error("protected_mode = True") ==
        "sepald.toml:1: protected_mode is True: must be one of no yes; a text stands in double quotes");
  CHECK(file_error("journal = true") ==
        "sepald.toml:1: journal is true: must be one of off everysec always; a text stands in double quotes");
  CHECK(file_error("maxmemory = 2 parsecs")
            .starts_with(
                "sepald.toml:1: maxmemory is 2 parsecs: must be bytes, as in 1048576, \"64mb\" or "
                "\"4GiB\" (k, m, g and t are of 1000, the others of 1024), between 0 and 1024tb, or a share "
                "of the memory there is, as in \"50%\", between 1% and 100%"));
  CHECK(file_error("port = 6380x") ==
        "sepald.toml:1: port is 6380x: must be a whole number between 0 and 65535");
  CHECK(file_error("port =") ==
        "sepald.toml:1: port has no value: it must be a whole number between 0 and 65535");
  CHECK(file_error("dir = \"data").starts_with("sepald.toml:1: dir: "));
}

TEST_CASE("no error shows a password that stands without quotes") {
  CHECK(file_error("requirepass = hunter2") ==
        "sepald.toml:1: requirepass is not a text: a text stands in double quotes");
  CHECK(file_error("requirepass = 'hunter2") == "sepald.toml:1: requirepass: a text stands in double quotes");
  CHECK(file_error("requirepass = 1234").find("1234") == std::string::npos);
  CHECK(file_error("port = 6379 requirepass = hunter2").find("hunter2") == std::string::npos);
  CHECK(file_error("dir = data requirepass = hunter2").find("hunter2") == std::string::npos);
}

TEST_CASE("a file that is no TOML is refused, and the error names the line") {
  const std::string of_redis = file_error("# of Redis\nport 6379\n");
  CHECK(of_redis.starts_with("sepald.toml:2: "));
  CHECK(of_redis.ends_with("; a line is NAME = VALUE, as in port = 6379"));
  CHECK(file_error("port = 1\nport = 2\n").rfind("sepald.toml:2: ", 0) == 0);
  CHECK(file_error("port = 1\n\nbind = [1,").rfind("sepald.toml:3: ", 0) == 0);
  CHECK(file_error("\xff\xfe").rfind("sepald.toml:1: ", 0) == 0);
  CHECK(file_error("maxmemory = 99999999999999999999").rfind("sepald.toml:1: ", 0) == 0);
}

TEST_CASE("a file that is missing, empty, a directory or endless is refused, and the error names it") {
  CHECK(error_of({"--config", "/nowhere/x.toml"}) ==
        "/nowhere/x.toml: cannot be opened: No such file or directory");
  CHECK(file_error("") == "sepald.toml: is empty");
  CHECK(file_error(" \n\t\r\n") == "sepald.toml: is empty");
  CHECK(error_of({"--config", "/"}) == "/: cannot be read: Is a directory");
  CHECK(error_of({"--config", "/dev/zero"}).find("/dev/zero: is longer than") == 0);
}

TEST_CASE("a flag out of range is refused with the range") {
  CHECK(error_of({"--port", "70000"}) == "--port 70000: must be between 0 and 65535");
  CHECK(error_of({"--port", "-1"}) == "--port -1: must be a whole number between 0 and 65535");
  CHECK(error_of({"--port", "x"}) == "--port x: must be a whole number between 0 and 65535");
  CHECK(error_of({"--threads", "1025"}) == "--threads 1025: must be between 0 and 1024");
  CHECK(error_of({"--requirepass", std::string(16385, 'x')}) ==
        "--requirepass (hidden): must be a text of 0 to 16384 bytes");
  CHECK(error_of({"--bf-error-rate", "1"}) == "--bf-error-rate 1: must be a number from 1e-15 to below 1");
}

TEST_CASE("the error for an unknown flag names it, and a likely flag") {
  CHECK(error_of({"--save-interval"}) == "--save-interval needs a value");
  CHECK(error_of({"--prot", "1"}) == "unknown flag '--prot'; did you mean '--port'?");
  CHECK(error_of({"--save_interval=5"}) == "unknown flag '--save_interval'; did you mean '--save-interval'?");
  CHECK(error_of({"--frobnicate"}) == "unknown flag '--frobnicate'; --help lists all flags");
  // "--" ends the flags.
  CHECK(error_of({"--port", "7", "--", "--prot"}) ==
        "unexpected argument '--prot'; a configuration file is given by --config");
  CHECK(error_of({"--frobnicate", "--"}) == "unknown flag '--frobnicate'; --help lists all flags");
  CHECK(read_invocation(std::vector<std::string>{"--port", "7", "--"}, "sepald"));
  CHECK(error_of({"redis.conf"}) ==
        "unexpected argument 'redis.conf'; a configuration file is given by --config");
  CHECK(error_of({"--port"}).find("--port") != std::string::npos);
}

TEST_CASE("a flag is never taken as the value of the flag before it") {
  CHECK(error_of({"--config", "--port", "6380"}) == "--config needs a value, and --port follows it");
  CHECK(error_of({"--protected-mode", "--check-config"}) ==
        "--protected-mode needs a value, and --check-config follows it");
  CHECK(error_of({"--dir", "--port=6380"}) == "--dir needs a value, and --port follows it");
  CHECK(error_of({"--dir", "--prot", "6380"}) == "--dir needs a value, and --prot follows it");
  CHECK(error_of({"--requirepass", "--port", "6380"}) ==
        "--requirepass needs a value, and a flag follows it; a password that looks like one is given as "
        "--requirepass=...");
  CHECK(settings_of({"--requirepass", "--a b"}).runtime.password == "--a b");
  CHECK(settings_of({"--requirepass=--port"}).runtime.password == "--port");
  CHECK(error_of({"--requirepass=", "--port=1"}) ==
        "--requirepass= has no value; an empty one is given as --requirepass \"\"");
  CHECK(settings_of({"--unixsocket", "", "--port", "1"}).server.port == 1);
  CHECK(settings_of({"--check-config", "--port", "1"}).server.port == 1);
}

TEST_CASE("the help says how several addresses are given") {
  const auto help = read({"--help"});
  REQUIRE(help.ok());
  CHECK(help->text.find("as one value (\"ADDRESS ADDRESS\")") != std::string::npos);
  CHECK(help->text.find("If a flag is given twice, the last one counts.") != std::string::npos);
}

TEST_CASE("an address is a number, a name or a star") {
  for (const std::string good :
       {"0.0.0.0", "-::", "localhost", "*", "-::*", "db-1.example.org", "::ffff:1.2.3.4"}) {
    CHECK(settings_of({"--bind", good}).server.bind == std::vector<std::string>{good});
  }
  for (const std::string bad : {"1.2.3", "1.2.3.4.5", "-", "a/b", "::1::", "1.2.3.4:6379", "[::1]", "**"}) {
    INFO(bad);
    CHECK(error_of({"--bind", bad}).find("must be at most 16 addresses or host names") != std::string::npos);
    CHECK(error_of({"--bind", "127.0.0.1 " + bad}).find("; \"" + bad + "\" is no address") !=
          std::string::npos);
  }
  CHECK(error_of({"--bind", "300.1.1.1"}).ends_with("; \"300.1.1.1\" is no address"));
  CHECK(error_of({"--bind", "a/b"}).ends_with("; \"a/b\" is no address and no host name"));
  std::string many;
  for (int i = 0; i < 17; ++i) many += "localhost ";
  CHECK(error_of({"--bind", many}).ends_with("\"*\""));
}

TEST_CASE("a server that no client could reach is refused") {
  CHECK(error_of({"--bind", ""}).find("no client could connect") != std::string::npos);
  CHECK(settings_of({"--bind", "", "--unixsocket", "/tmp/s"}).server.bind.empty());
}

TEST_CASE("two ports of one address are not alike") {
  CHECK(error_of({"--port", "7", "--http-port", "7"}) ==
        "port and http_port are the same: set one of them to another port");
  CHECK(error_of({"--check-config", "--tls-port", "7", "--http-port", "7"}) ==
        "tls_port and http_port are the same: set one of them to another port");
  for (const std::string all : {"*", "0.0.0.0", "10.0.0.1 -127.0.0.1"})
    CHECK(error_of({"--port", "7", "--http-port", "7", "--bind", all}).starts_with("port and http_port"));
  CHECK(error_of({"--port", "7", "--http-port", "7", "--bind", "10.0.0.1", "--http-bind", "0.0.0.0"})
            .starts_with("port and http_port"));
  // The addresses are others, so the system tells the ports apart.
  CHECK(settings_of({"--port", "7", "--http-port", "7", "--bind", "10.0.0.1"}).http.port == 7);
  CHECK(settings_of({"--port", "7", "--http-port", "7", "--bind", "::", "--http-bind", "127.0.0.1"})
            .http.port == 7);
  CHECK(settings_of({"--port", "0", "--http-port", "0"}).http.port == 0);
}

TEST_CASE("the words help and version stand for the flags") {
  CHECK(read({"help"})->text == read({"--help"})->text);
  CHECK(read({"version"})->text == "sepald 1.2.3\n");
  CHECK(error_of({"help", "port"}).starts_with("unexpected argument 'help'"));
}

TEST_CASE("help and version are printed before anything is checked") {
  const auto help = read({"--help", "--port", "70000"});
  REQUIRE(help.ok());
  CHECK(help->action == Invocation::Action::print_and_exit);
  for (const std::string word :
       {"--config", "--check-config", "--save-interval", "(default \"1h\")", "64mb"}) {
    CHECK(help->text.find(word) != std::string::npos);
  }
  const auto version = read({"--version"});
  REQUIRE(version.ok());
  CHECK(version->text == "sepald 1.2.3\n");
}

TEST_CASE("check-config reports what differs and hides the password") {
  const auto checked =
      read({"--check-config", "--port", "7000", "--requirepass", "tell-nobody", "--timeout", "60"});
  REQUIRE(checked.ok());
  CHECK(checked->action == Invocation::Action::check_config);
  CHECK(checked->text ==
        "configuration ok\nport = 7000 (default 6379)\ntimeout = \"1m\" (default 0)\n"
        "requirepass = (hidden) (default \"\")\n");
  CHECK(error_of({"--check-config", "--port", "x"}).find("--port x") == 0);
}

}  // namespace
}  // namespace sepal::settings::settings_test
