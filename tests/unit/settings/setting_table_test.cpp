// The table of settings, the sample file, and the ranges and texts of the rows.
#include <cctype>

#include "settings/config_file.hpp"
#include "settings/quantity.hpp"
#include "settings/setting.hpp"
#include "settings/value_text.hpp"
#include "support/catch.hpp"

namespace sepal::settings::setting_table_test {
namespace {

std::string sample_text() {
  std::ifstream file(SEPAL_SAMPLE_CONFIG, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Adds what the sample file lacks: for each new setting a paragraph of its help behind the setting before it,
// and each default as a rewrite would write it, with the range behind it.
std::string completed(std::string text) {
  const Settings defaults;
  std::size_t behind = 0;
  for (const Setting& setting : all_settings()) {
    const std::string name = std::string(setting.key) + " = ";
    std::size_t at = text.find("\n" + name, behind == 0 ? 0 : behind - 1);
    if (at == std::string::npos) {
      std::string sentence(setting.help);
      sentence[0] = static_cast<char>(std::toupper(sentence[0]));
      const std::string paragraph = "\n# " + sentence + ".\n";
      text.insert(behind, paragraph + name + "\n");
      at = behind + paragraph.size() - 1;
    }
    const std::size_t value = at + 1 + name.size();
    text.replace(value, text.find('\n', value) - value,
                 toml_text(setting, setting.get(defaults)) + "  # " + range_text(setting));
    behind = text.find('\n', value) + 1;
  }
  return text;
}

TEST_CASE("the sample file is complete; with SEPAL_WRITE=1 this test adds what it lacks") {
  const std::string text = sample_text();
  if (std::getenv("SEPAL_WRITE") != nullptr) std::ofstream(SEPAL_SAMPLE_CONFIG) << completed(text);
  CHECK(sample_text() == completed(text));
}

TEST_CASE("the sample file lacks a setting, a default and a range, and all are added") {
  std::string text = sample_text();
  const std::string full = text;
  const std::size_t at = text.find("\n# Layers that one filter may grow to.");
  const std::string line = "layers_max = 64  # 1 to 1024\n";
  text.erase(at, text.find(line) + line.size() - at);
  text.replace(text.find("port = 6379"), 11, "port = 1");
  text.erase(text.find("  # 1 to 1000000000000000\n"), 25);
  CHECK(completed(text) == full);
}

TEST_CASE("the sample file shows every setting with its default, in the order of the table") {
  const auto sample = parse_config(sample_text(), SEPAL_SAMPLE_CONFIG);
  if (!sample) FAIL(sample.error().detail);
  const Settings defaults;
  std::vector<std::string> shown;
  std::vector<std::string> known;
  for (const FileSetting& entry : *sample) {
    INFO(entry.setting->key);
    shown.emplace_back(entry.setting->key);
    CHECK(entry.value == entry.setting->get(defaults));
  }
  for (const Setting& setting : all_settings()) known.emplace_back(setting.key);
  CHECK(shown == known);
}

TEST_CASE("every setting accepts the ends of its range, and refuses one past them") {
  for (const Setting& setting : all_settings()) {
    INFO(setting.key);
    const auto [min, max] = setting.range;
    switch (setting.kind) {
      case Kind::count:
      case Kind::bytes:
      case Kind::seconds:
      case Kind::permissions: {
        CHECK(check_range(setting, min).ok());
        CHECK(check_range(setting, max).ok());
        CHECK_FALSE(check_range(setting, max + 1).ok());
        if (min > 0) CHECK_FALSE(check_range(setting, min - 1).ok());
        // The field is wide enough for every number of the range.
        Settings settings;
        setting.set(settings, max);
        CHECK(setting.get(settings) == Value(max));
        break;
      }
      case Kind::text:
        CHECK(check_range(setting, std::string(max, 'x')).ok());
        CHECK_FALSE(check_range(setting, std::string(max + 1, 'x')).ok());
        if (min > 0) CHECK_FALSE(check_range(setting, std::string(min - 1, 'x')).ok());
        break;
      case Kind::addresses:
        CHECK(check_range(setting, std::vector<std::string>(max, "::1")).ok());
        CHECK_FALSE(check_range(setting, std::vector<std::string>(max + 1, "::1")).ok());
        break;
      case Kind::choice:
        for (const std::string_view choice : setting.choices) CHECK(parse_value(setting, choice).ok());
        CHECK_FALSE(parse_value(setting, "").ok());
        break;
      case Kind::rate:
      case Kind::seed: break;
    }
  }
}

TEST_CASE("the default of every setting is within its range, and is read back as written") {
  for (const Setting& setting : all_settings()) {
    INFO(setting.key);
    const Value usual = setting.get(Settings{});
    CHECK(check_range(setting, usual).ok());
    const std::string line = std::string(setting.key) + " = " + toml_text(setting, usual);
    const auto read = parse_config(line, "line");
    if (!read) FAIL(read.error().detail);
    CHECK(read->front().value == usual);
  }
}

TEST_CASE("sizes are written as in redis.conf") {
  const std::vector<std::pair<std::string, std::uint64_t>> sizes{{"0", 0},
                                                                 {"10b", 10},
                                                                 {"1k", 1000},
                                                                 {"1kb", 1024},
                                                                 {"1KB", 1024},
                                                                 {"5m", 5'000'000},
                                                                 {"64Mb", 64ull << 20},
                                                                 {"1g", 1'000'000'000},
                                                                 {"2GB", 2ull << 30},
                                                                 {"3KiB", 3072},
                                                                 {"64mib", 64ull << 20},
                                                                 {"4GiB", 4ull << 30},
                                                                 {"2tb", 2ull << 40},
                                                                 {"1TiB", 1ull << 40},
                                                                 {"2t", 2'000'000'000'000}};
  for (const auto& [text, bytes] : sizes) CHECK(parse_bytes(text) == bytes);
  for (const std::string bad : {"", "b", "-1", "1.5gb", "1 kb", "kb1", "1kbb", "0x10", "+1", "1ki", "50%",
                                "1pb", "18446744073709551616", "18014398509481984kb", "17179869184gb"}) {
    INFO(bad);
    CHECK_FALSE(parse_bytes(bad));
  }
  CHECK(parse_bytes("17179869183gb") == 17179869183ull << 30);
  CHECK(bytes_text(2ull << 40) == "2tb");
  CHECK(bytes_text((2ull << 40) + (1ull << 30)) == "2049gb");
  CHECK(bytes_text(1000) == "1000");
}

TEST_CASE("a share of the memory is whole megabytes, from 1% to 100%") {
  constexpr std::uint64_t megabyte = 1ull << 20;
  const std::uint64_t memory = 1000 * megabyte + 77;
  CHECK(parse_memory("50%", memory) == 500 * megabyte);
  CHECK(parse_memory("100%", memory) == 1000 * megabyte);
  CHECK(parse_memory("1%", memory) == 10 * megabyte);
  CHECK(parse_memory("64mb", memory) == 64 * megabyte);
  for (const std::string bad : {"0%", "101%", "%", "-5%", "5.5%", "5 %", "50%%", "18446744073709551616%"}) {
    INFO(bad);
    CHECK_FALSE(parse_memory(bad, memory));
  }
  // Not even a megabyte, or the memory is not known.
  CHECK_FALSE(parse_memory("1%", 50 * megabyte));
  CHECK_FALSE(parse_memory("50%", 0));
}

TEST_CASE("only settings of memory take a share of it") {
  std::vector<std::string> takes;
  for (const Setting& setting : all_settings())
    if (setting.kind == Kind::bytes && parse_value(setting, "50%")) takes.emplace_back(setting.key);
  CHECK(takes == std::vector<std::string>{"maxmemory", "maxmemory_clients", "script_memory_max"});
}

TEST_CASE("times are seconds with or without a unit") {
  CHECK(parse_seconds("0") == 0);
  CHECK(parse_seconds("90") == 90);
  CHECK(parse_seconds("90s") == 90);
  CHECK(parse_seconds("5M") == 300);
  CHECK(parse_seconds("1h") == 3600);
  CHECK(parse_seconds("2d") == 172800);
  for (const std::string bad : {"", "s", "5ms", "1.5h", "-1", "1h30m", "213503982334602d"}) {
    INFO(bad);
    CHECK_FALSE(parse_seconds(bad));
  }
}

}  // namespace
}  // namespace sepal::settings::setting_table_test
