// Cuckoo filters of RedisBloom in RDB files.
#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/cuckoo/foreign/redis_payload.hpp>
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/cuckoo/kind/module_type.hpp>
#include <sepal/cuckoo/kind/redis_kind.hpp>
#include <sepal/cuckoo/native/memory.hpp>
#include <sepal/strings/kind.hpp>
#include <sepal/value/module_payload.hpp>

#include "support/converted.hpp"

namespace convert_cuckoo_test {

using namespace sepal;
using namespace sepal::tools;
using cuckoo::RedisHeader;
using cuckoo::RedisTable;
using test::append_saved;
using test::begun;
using test::convert_file;
using test::load;
using test::Loaded;
using test::plenty;
using test::put;
using test::RdbText;
using test::SimulatedDisk;

namespace {

RedisTable filled(const cuckoo::RedisOptions& options, std::uint64_t item_count) {
  auto table = RedisTable::make(cuckoo::redis_header_of(options), plenty);
  REQUIRE(table);
  for (std::uint64_t i = 0; i < item_count; ++i)
    REQUIRE(table->add("item:" + std::to_string(i), plenty) == RedisTable::Added::added);
  return std::move(*table);
}

using WriteSlots = std::function<void(RdbText&, std::string_view)>;

void write_plain(RdbText& text, std::string_view slots) {
  text.string(slots);
}

std::vector<std::string> slots_of(const RedisTable& table) {
  std::vector<std::string> slots;
  for (std::uint32_t layer = 0; layer < table.header().layer_count; ++layer) {
    const auto bytes = table.slots(layer);
    slots.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return slots;
}

// A key and its filter, as an RDB file has them.
void append(RdbText& text, const std::string& key, const RedisHeader& header,
            const std::vector<std::string>& slots, const WriteSlots& write_slots = write_plain,
            std::uint64_t id = cuckoo::redis_id) {
  text.bytes += '\x07';
  text.length(key.size());
  text.bytes += key;
  text.length(id);
  for (const std::uint64_t number :
       {std::uint64_t{header.layer_count}, header.bucket_count, header.item_count, header.delete_count,
        std::uint64_t{header.bucket_slots}, std::uint64_t{header.kicks_max}, std::uint64_t{header.expansion}})
    text.number(number);
  for (std::uint32_t layer = 0; layer < slots.size(); ++layer) {
    text.number(header.layer_buckets(layer));
    write_slots(text, slots[layer]);
  }
  text.length(0);
}

value::ValuePtr own_filter(int item_count) {
  auto own = cuckoo::Filter::create(*cuckoo::plan({.capacity = 100'000, .seed = 5}, plenty.bytes_max));
  REQUIRE(own);
  cuckoo::OwnMemory memory;
  std::vector<cuckoo::Filter::AddOutcome> outcomes;
  for (int i = 0; i < item_count; ++i) {
    const std::string item = std::to_string(i);
    const std::string_view items[] = {item};
    REQUIRE((*own)->add(items, cuckoo::Filter::AddIf::always, memory, outcomes, nullptr));
  }
  return *own;
}

const RedisTable& table_of(const Loaded& loaded, const std::string& key) {
  const auto* const filter = value::as<cuckoo::RedisFilter>(loaded.values.at(key).get());
  REQUIRE(filter != nullptr);
  return filter->table();
}

bool same(const RedisTable& one, const RedisTable& other) {
  return one.header() == other.header() && slots_of(one) == slots_of(other);
}

std::string refusal_of(const RdbText& text) {
  SimulatedDisk disk;
  put(disk, text);
  const auto report = convert_file(disk, ConvertRequest::Output::data_directory);
  REQUIRE(report);
  CHECK(report->keys.filters == 0);
  REQUIRE(report->keys.refused.size() == 1);
  return report->keys.refused.begin()->first;
}

}  // namespace

TEST_CASE("cuckoo filters of an RDB file have the slots that they had, plain or packed") {
  const RedisTable one = filled({.capacity = 4}, 3);  // 4 slots: less than a word
  const RedisTable grown = filled({.capacity = 16, .bucket_slots = 3, .expansion = 2}, 500);
  const RedisTable large = filled({.capacity = 3'000'000}, 20'000);
  REQUIRE(grown.header().layer_count > 3);
  RdbText text = begun();
  text.bytes += std::string("\xfc") + std::string("\0\0\0\0\0\0\0\x7f", 8);
  append(text, "one", one.header(), slots_of(one));
  append(text, "grown", grown.header(), slots_of(grown), test::write_packed);
  append(text, "large", large.header(), slots_of(large), test::write_packed);
  SimulatedDisk disk;
  put(disk, text);
  const auto report = convert_file(disk, ConvertRequest::Output::data_directory);
  REQUIRE(report);
  CHECK(report->keys.filters == 3);
  CHECK(report->keys.items == 3 + 500 + 20'000);
  CHECK(report->keys.layers_most == grown.header().layer_count);
  const Loaded loaded = load(disk);
  REQUIRE(loaded.values.size() == 3);
  CHECK(same(table_of(loaded, "one"), one));
  CHECK(same(table_of(loaded, "grown"), grown));
  CHECK(same(table_of(loaded, "large"), large));
  CHECK(loaded.deadlines.at("one") == std::int64_t{0x7f} << 56);
  CHECK(loaded.deadlines.at("grown") == keyspace::no_deadline);
}

TEST_CASE("slots that Redis has written as a number are its digits") {
  const RedisHeader header{.item_count = 4, .bucket_count = 2};
  const auto write_number = [](RdbText& text, std::string_view) { text.bytes += "\x05\xc1\xd2\x04"; };
  RdbText text = begun();
  append(text, "k", header, {"1234"}, write_number);
  SimulatedDisk disk;
  put(disk, text);
  REQUIRE(convert_file(disk, ConvertRequest::Output::data_directory));
  CHECK(slots_of(table_of(load(disk), "k")) == std::vector<std::string>{"1234"});

  RdbText longer = begun();
  append(longer, "k", {.item_count = 4, .bucket_count = 4}, {"12345678"}, write_number);
  CHECK(refusal_of(longer) == "a layer of the filter has another length than it says");
}

TEST_CASE("cuckoo filters that no RedisBloom has are left out with the reason, and the next key is read") {
  const RedisTable table = filled({.capacity = 4}, 1);
  const auto refused = [&](RedisHeader header, std::vector<std::string> slots,
                           std::uint64_t id = cuckoo::redis_id) {
    RdbText text = begun();
    append(text, "wrong", header, slots, write_plain, id);
    return refusal_of(text);
  };
  const std::string no_filter = "this is no cuckoo filter of RedisBloom";
  RedisHeader header = table.header();
  CHECK(refused(header, {"abc"}) == no_filter);
  header.bucket_count = 3;
  CHECK(refused(header, {"abcdef"}) == no_filter);
  CHECK(refused(table.header(), slots_of(table), cuckoo::redis_id - 1) ==
        "an unknown version of RedisBloom or Sepal wrote it");
  header = {.item_count = 1, .layer_count = 1025, .bucket_slots = 1};
  CHECK(refused(header, std::vector<std::string>(1025, "x")) ==
        "the filter has more than 1024 layers, the limit (layers_max)");

  RdbText text = begun();
  append(text, "wrong", table.header(), {"abc"});
  append(text, "right", table.header(), slots_of(table));
  SimulatedDisk disk;
  put(disk, text);
  const auto report = convert_file(disk, ConvertRequest::Output::data_directory);
  REQUIRE(report);
  CHECK(report->keys.filters == 1);
  CHECK(report->keys.refused_keys == std::vector<std::string>{"3:wrong"});
  CHECK(same(table_of(load(disk), "right"), table));
}

TEST_CASE("cuckoo filters that sepal.so has saved, of both kinds, are what they were") {
  auto of_redis = cuckoo::RedisFilter::of(filled({.capacity = 1000}, 300));
  REQUIRE(of_redis);
  const std::map<std::string, value::ValuePtr> saved{{"own", own_filter(50'000)},
                                                     {"redis", std::move(*of_redis)}};
  RdbText text = begun();
  for (const auto& [key, value] : saved) append_saved(text, key, value);
  SimulatedDisk disk;
  put(disk, text);
  const auto report = convert_file(disk, ConvertRequest::Output::data_directory);
  REQUIRE(report);
  CHECK(report->keys.filters == 2);
  CHECK(report->keys.items == 50'300);
  const Loaded loaded = load(disk);
  REQUIRE(loaded.values.size() == 2);
  for (const auto& [key, value] : saved) CHECK(test::same(*value, *loaded.values.at(key)));
}

TEST_CASE("a filter of sepal.so whose cells contradict themselves is left out, and the directory starts") {
  const value::ValuePtr filter = own_filter(50'000);
  RdbText text = begun();
  append_saved(text, "before", filter);
  const std::size_t begin = text.bytes.size();
  append_saved(text, "wrong", filter);
  text.bytes[(begin + text.bytes.size()) / 2] ^= 1;
  append_saved(text, "behind", filter);
  SimulatedDisk disk;
  put(disk, text);
  const auto report = convert_file(disk, ConvertRequest::Output::data_directory);
  REQUIRE(report);
  CHECK(report->keys.filters == 2);
  CHECK(report->keys.refused_keys == std::vector<std::string>{"3:wrong"});
  REQUIRE(report->keys.refused.size() == 1);
  CHECK(report->keys.refused.begin()->first.starts_with("it contradicts itself: "));
  CHECK(load(disk).values.size() == 2);
}

TEST_CASE("a value of sepal.so that is no cuckoo filter is left out, and the next key is read") {
  const auto refused = [](std::string_view head, const std::string& piece) {
    RdbText text = begun();
    text.bytes += "\x07\x01k";
    text.length(value::module_id(cuckoo::redis_type_name, cuckoo::sepal_encoding));
    text.string(head);
    text.string(piece);
    text.length(0);
    const RedisTable table = filled({.capacity = 4}, 1);
    append(text, "right", table.header(), slots_of(table));
    SimulatedDisk disk;
    put(disk, text);
    const auto report = convert_file(disk, ConvertRequest::Output::data_directory);
    REQUIRE(report);
    CHECK(report->keys.filters == 1);
    REQUIRE(report->keys.refused.size() == 1);
    return report->keys.refused.begin()->first;
  };
  const strings::ImageHead string_head = strings::image_head(8);
  CHECK(refused({reinterpret_cast<const char*>(string_head.data()), string_head.size()}, "12345678") ==
        "this is no cuckoo filter");
  CHECK(refused("no head", "12345678") == "this is no value of Sepal");
  const auto head = cuckoo::redis_image_head({.bucket_count = 4});
  CHECK(refused({reinterpret_cast<const char*>(head.data()), head.size()}, "1234567") ==
        "this is no RedisBloom cuckoo filter");
}

TEST_CASE("a filter file holds no cuckoo filter, and the report says so") {
  const RedisTable table = filled({.capacity = 4}, 1);
  RdbText text = begun();
  append(text, "k", table.header(), slots_of(table));
  SimulatedDisk disk;
  put(disk, text);
  const auto report = convert_file(disk, ConvertRequest::Output::filter_files);
  REQUIRE(report);
  CHECK(report->keys.filters == 0);
  CHECK(report->keys.refused.at("a filter file holds a Bloom filter, and this is a cuckoo filter") == 1);
  CHECK(disk.list("out")->empty());
}

}  // namespace convert_cuckoo_test
