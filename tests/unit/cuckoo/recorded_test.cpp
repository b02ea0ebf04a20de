// What RedisBloom answered and dumped, step by step: see README.md.
#include <sepal/cuckoo/foreign/redis_payload.hpp>
#include <sepal/cuckoo/foreign/redis_table.hpp>

#include "support/catch.hpp"
#include "support/rdb_text.hpp"

namespace recorded_test {

namespace {

using namespace sepal;
using namespace sepal::cuckoo;

// Of Sepal for all filters, and of RedisBloom for those that grow.
constexpr value::Limits for_loads{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};
constexpr value::Limits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 32};

RedisTable table_of_header(const RedisHeader& header) {
  auto table = RedisTable::make(header, for_loads);
  REQUIRE(table);
  return std::move(*table);
}

std::string answer_of(RedisTable::Added added) {
  if (added == RedisTable::Added::added) return "1";
  return added == RedisTable::Added::exists ? "0" : "full";
}

std::string hex_of(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

// A filter, and what the file tells it to do. Each step returns what RedisBloom would have answered.
class Replay {
 public:
  std::string step(const std::string& name, std::istringstream& words) {
    if (name == "case") return begin(words);
    if (name == "reserve") return reserve(words);
    if (name == "restore") return restore(words);
    if (name == "load") return load(words);
    if (name == "exist") return exist(words);
    if (name == "info") return info();
    if (name == "dump") return dump(words);
    if (name == "compact") {
      table_.compact();
      return {};
    }
    return with_item(name, words);
  }

 private:
  std::string begin(std::istringstream& words) {
    std::string ignored;
    words >> ignored;
    table_ = table_of_header(redis_header_of({}));
    return {};
  }

  std::string reserve(std::istringstream& words) {
    RedisOptions options;
    words >> options.capacity >> options.bucket_slots >> options.kicks_max >> options.expansion;
    table_ = table_of_header(redis_header_of(options));
    return {};
  }

  std::string restore(std::istringstream& words) {
    std::string hex;
    words >> hex;
    const std::string payload = test::unhex(hex);
    const auto fields = decode_redis_payload(test::bytes_of(payload));
    REQUIRE(fields);
    rdb::BytesInMemory bytes(test::bytes_of(payload));
    auto table = table_of(*fields, bytes, for_loads);
    REQUIRE(table);
    table_ = std::move(*table);
    return {};
  }

  std::string load(std::istringstream& words) {
    std::int64_t iterator = 0;
    std::string hex;
    words >> iterator >> hex;
    const std::string bytes = test::unhex(hex);
    if (iterator == 1) {
      const auto header = decode_redis_header(test::bytes_of(bytes));
      if (!header) return header.error().code == Errc::damaged ? "no_header" : "no_filter";
      table_ = table_of_header(*header);
      return "ok";
    }
    const auto place = redis_place_of(table_.header(), iterator, bytes.size());
    if (!place) return "no_chunk";
    table_.write(*place, test::bytes_of(bytes));
    return "ok";
  }

  std::string with_item(const std::string& name, std::istringstream& words) {
    std::string item;
    words >> item;
    if (item == "\"\"") item.clear();
    if (name == "add") return answer_of(table_.add(item, plenty));
    if (name == "add_new") return answer_of(table_.add_new(item, plenty));
    if (name == "remove") return table_.remove(item) ? "1" : "0";
    if (name == "exists") return table_.contains(item) ? "1" : "0";
    if (name == "count") return std::to_string(table_.count(item));
    FAIL("a step has an unknown name");
    return {};
  }

  std::string exist(std::istringstream& words) {
    std::string prefix;
    std::uint64_t first = 0;
    words >> prefix >> first;
    const std::streampos before = words.tellg();
    std::string digits;
    words >> digits;
    words.seekg(before);
    std::string answer;
    for (std::uint64_t i = 0; i < digits.size(); ++i)
      answer += table_.contains(prefix + std::to_string(first + i)) ? '1' : '0';
    return answer;
  }

  std::string info() const {
    const RedisHeader& header = table_.header();
    std::ostringstream text;
    text << header.bucket_count << ' ' << header.layer_count << ' ' << header.item_count << ' '
         << header.delete_count << ' ' << header.bucket_slots << ' ' << header.expansion << ' '
         << header.kicks_max;
    return text.str();
  }

  std::string dump(std::istringstream& words) {
    std::int64_t iterator = 0;
    words >> iterator;
    if (iterator == 0) return "1 " + hex_of(encode_redis_header(table_.header()));
    const auto piece = redis_piece_at(table_.header(), iterator);
    REQUIRE(piece);
    return std::to_string(piece->iterator) + ' ' +
           hex_of(table_.slots(piece->layer).subspan(piece->offset, piece->byte_count));
  }

  RedisTable table_ = table_of_header(redis_header_of({}));
};

}  // namespace

TEST_CASE("a filter does what RedisBloom's did, and has the same bytes then") {
  std::ifstream file(SEPAL_SOURCE_FOLDER "/tests/unit/cuckoo/recorded.txt");
  REQUIRE(file);
  Replay replay;
  std::string case_name;
  std::size_t step_count = 0;
  for (std::string line; std::getline(file, line); ++step_count) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "case") case_name = line;
    const std::string answer = replay.step(name, words);
    std::string expected;
    std::getline(words >> std::ws, expected);
    INFO(case_name);
    INFO(line.substr(0, 200));
    CHECK(answer == expected);
  }
  CHECK(step_count > 900);
}

}  // namespace recorded_test
