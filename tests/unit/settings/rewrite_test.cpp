#include <sepal/settings/settings.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "temporary_file.hpp"

namespace sepal::settings::rewrite_test {
namespace {

using test::TemporaryFile;

Settings load(const std::string& path) {
  auto invocation = read_invocation(std::vector<std::string>{"--config", path}, "sepald");
  if (!invocation) FAIL(invocation.error().detail);
  return invocation->settings;
}

void rewrite(const Settings& settings) {
  if (const auto done = rewrite_config_file(settings); !done) FAIL(done.error().detail);
}

TEST_CASE("a rewrite changes the values that changed and nothing else") {
  const TemporaryFile file(
      "# Mine.\n\nport=7000   # the port\n  maxmemory = 0 # none\n\"timeout\" = '5m'\nbind = [ "
      "\"127.0.0.1\", # local\n"
      "  \"::1\" ] # two\noutput_bytes_max = 2048\n");
  Settings settings = load(file.path());
  settings.keyspace.memory_max = 64u << 20;
  settings.runtime.idle_timeout = std::chrono::seconds(61);
  settings.server.bind = {"0.0.0.0"};
  rewrite(settings);
  CHECK(file.read() ==
        "# Mine.\n\nport=7000   # the port\n  maxmemory = \"64mb\" # none\n\"timeout\" = \"61s\"\n"
        "bind = [\"0.0.0.0\"] # two\noutput_bytes_max = 2048\n");
}

TEST_CASE("a rewrite adds missing settings once, and only if they differ from the default") {
  const TemporaryFile file("port = 7000");
  Settings settings = load(file.path());
  settings.runtime.clients_max = 50;
  rewrite(settings);
  CHECK(file.read() == "port = 7000\n\n# Added by CONFIG REWRITE:\nmaxclients = 50\n");
  settings.runtime.password = "a\"\\\n";
  rewrite(settings);
  CHECK(file.read() ==
        "port = 7000\n\n# Added by CONFIG REWRITE:\nmaxclients = 50\nrequirepass = \"a\\\"\\\\\\u000A\"\n");
  CHECK(load(file.path()).runtime.password == "a\"\\\n");
}

TEST_CASE("a rewrite finds values after characters of several bytes, and keeps line ends") {
  const TemporaryFile file(
      "# f\xc3\xbcr uns\r\ndir = \"d\xc3\xa4ta\" # \xc3\xa4\r\nport = 1 # \xe2\x82\xac\r\n");
  Settings settings = load(file.path());
  settings.data_directory = "x";
  settings.server.port = 2;
  settings.server.listen_backlog = 3;
  rewrite(settings);
  CHECK(file.read() ==
        "# f\xc3\xbcr uns\r\ndir = \"x\" # \xc3\xa4\r\nport = 2 # \xe2\x82\xac\r\n\r\n# Added by CONFIG "
        "REWRITE:\r\n"
        "backlog = 3\r\n");
}

TEST_CASE("a rewritten file with every setting is read back unchanged") {
  const TemporaryFile file("# empty\n");
  Settings settings = load(file.path());
  settings.server = {.bind = {"::1", "-10.0.0.1"},
                     .port = 1,
                     .worker_count = 9,
                     .listen_backlog = 2,
                     .unix_socket = "/s",
                     .unix_socket_mode = 07};
  settings.threads = 9;
  settings.runtime.output_bytes_max = 4097;
  settings.runtime.tcp_keepalive = std::chrono::seconds(86400);
  settings.keyspace.error_rate = 1e-6;
  settings.keyspace.memory_max = 3'000'000'001;
  settings.seed = 18446744073709551615ull;
  settings.runtime.log_level = command::LogLevel::error;
  rewrite(settings);
  const Settings read = load(file.path());
  CHECK(differences_from_defaults(read) == differences_from_defaults(settings));
  CHECK(read.seed == settings.seed);
  CHECK(read.keyspace.error_rate == 1e-6);
  CHECK(read.server.unix_socket_mode == 07);
}

TEST_CASE("a rewrite without changes does not touch the file") {
  const TemporaryFile file("port = 7000\n");
  struct stat before {};
  REQUIRE(::stat(file.path().c_str(), &before) == 0);
  rewrite(load(file.path()));
  struct stat after {};
  REQUIRE(::stat(file.path().c_str(), &after) == 0);
  CHECK(before.st_ino == after.st_ino);
}

TEST_CASE("a rewrite keeps permissions, follows a link and leaves nothing behind") {
  const TemporaryFile file("requirepass = \"x\"\n");
  REQUIRE(::chmod(file.path().c_str(), 0640) == 0);
  const std::string link = (file.directory() / "link.toml").string();
  std::filesystem::create_symlink("sepald.toml", link);
  Settings settings = load(link);
  settings.runtime.password = "y";
  rewrite(settings);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(file.read() == "requirepass = \"y\"\n");
  struct stat status {};
  REQUIRE(::stat(file.path().c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0640);
  CHECK(std::distance(std::filesystem::directory_iterator(file.directory()), {}) == 2);
}

TEST_CASE("a rewrite does not touch other files in the folder") {
  const TemporaryFile file("requirepass = \"x\"\n");
  const std::string beside = file.path() + ".tmp";
  std::ofstream(beside) << "mine";
  Settings settings = load(file.path());
  settings.runtime.password = "y";
  rewrite(settings);
  std::string kept;
  std::ifstream(beside) >> kept;
  CHECK(kept == "mine");
}

TEST_CASE("a value that no file can hold is refused, and the file stays") {
  const TemporaryFile file("port = 7000\n");
  Settings settings = load(file.path());
  settings.runtime.password = "\xff";
  const auto done = rewrite_config_file(settings);
  REQUIRE_FALSE(done.ok());
  CHECK(done.error().code == Errc::invalid_setting);
  CHECK(done.error().detail == file.path() +
                                   ": requirepass cannot be written: the value is no UTF-8, which "
                                   "the file has to be");
  CHECK(file.read() == "port = 7000\n");
}

TEST_CASE("a rewrite without a file is an error that says so") {
  CHECK(rewrite_config_file(Settings{}).error().code == Errc::not_found);
  Settings settings;
  {
    const TemporaryFile file("port = 1\n");
    settings = load(file.path());
  }
  CHECK(rewrite_config_file(settings).error().code == Errc::not_found);
}

}  // namespace
}  // namespace sepal::settings::rewrite_test
