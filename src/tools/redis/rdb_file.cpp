// The values of other types are skipped by their shapes, as few types need more than lengths and strings. The
// table `types` has the shape of each type. An unknown type ends the reading, because nothing tells where its
// value ends.
//
// The reader notes the first wrong field and gives zeros from there on (rdb/reader.hpp). So a value is
// read without a test behind each field. Each loop over a count from the file has to test failed(): a count
// may be any number, and zeros would be read that often.
#include "tools/redis/rdb_file.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/cuckoo/foreign/redis_payload.hpp>
#include <sepal/cuckoo/kind/module_type.hpp>
#include <sepal/cuckoo/kind/redis_kind.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/rdb/dump.hpp>
#include <sepal/value/module_payload.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "tools/build/plan.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr std::size_t file_piece_bytes = 256 << 10;
constexpr std::string_view rdb_magic = "REDIS";
constexpr std::string_view valkey_magic = "VALKEY";
constexpr std::size_t rdb_version_digits = 4;
constexpr unsigned rdb_version_min = 9;
constexpr unsigned rdb_version_max = 13;

// What can be done with a file of a format that is not read.
constexpr const char* by_migrate = "; start the server that wrote it, and copy its keys with sepal migrate";

// The types of items.
namespace opcode {
constexpr std::uint8_t key_metadata = 243;
constexpr std::uint8_t slot_info = 244;
constexpr std::uint8_t function = 245;
constexpr std::uint8_t module_part = 247;
constexpr std::uint8_t idle = 248;
constexpr std::uint8_t frequency = 249;
constexpr std::uint8_t about = 250;
constexpr std::uint8_t sizes = 251;
constexpr std::uint8_t deadline_milliseconds = 252;
constexpr std::uint8_t deadline_seconds = 253;
constexpr std::uint8_t database = 254;
constexpr std::uint8_t end = 255;
}  // namespace opcode

// How the value of a type is built.
enum class Shape : std::uint8_t {
  unknown,
  one_string,   // packed in one of several ways
  strings,      // a length and so many strings
  pairs,        // a length and twice as many
  scored_text,  // a length and so many strings, each with a number as text
  scored,       // with a number of 8 bytes
  nodes,        // a length and so many strings, each with a length before it
  stream,
  module,
  hash_deadlines,       // a length and so many pairs, each with a length before it
  hash_deadlines_from,  // the same behind 8 bytes
  one_string_from,      // a string behind 8 bytes
};

struct Type {
  Shape shape = Shape::unknown;
  const char* name = "";
};

constexpr std::uint8_t type_string = 0;
constexpr std::uint8_t type_stream_1 = 15;
constexpr std::uint8_t type_stream_2 = 19;
constexpr std::uint8_t type_stream_3 = 21;
constexpr std::uint8_t type_stream_4 = 26;

// By number. Gaps are types that no version from rdb_version_min on writes.
constexpr auto types = [] {
  std::array<Type, 27> table{};
  table[type_string] = {Shape::one_string, "string"};
  table[1] = {Shape::strings, "list"};
  table[2] = {Shape::strings, "set"};
  table[3] = {Shape::scored_text, "zset"};
  table[4] = {Shape::pairs, "hash"};
  table[5] = {Shape::scored, "zset"};
  table[rdb::module_type] = {Shape::module, "module"};
  table[9] = {Shape::one_string, "hash"};   // zipmap
  table[10] = {Shape::one_string, "list"};  // ziplist
  table[11] = {Shape::one_string, "set"};   // intset
  table[12] = {Shape::one_string, "zset"};  // ziplist
  table[13] = {Shape::one_string, "hash"};  // ziplist
  table[14] = {Shape::strings, "list"};     // quicklist of ziplists
  table[type_stream_1] = {Shape::stream, "stream"};
  table[16] = {Shape::one_string, "hash"};  // listpack
  table[17] = {Shape::one_string, "zset"};  // listpack
  table[18] = {Shape::nodes, "list"};       // quicklist of listpacks
  table[type_stream_2] = {Shape::stream, "stream"};
  table[20] = {Shape::one_string, "set"};  // listpack
  table[type_stream_3] = {Shape::stream, "stream"};
  // Hashes whose fields have deadlines. Releases of Redis write 24 and 25, which begin with the earliest of
  // the deadlines. Its previews wrote 22 and 23, without that.
  table[22] = {Shape::hash_deadlines, "hash"};  // of fields that have deadlines
  table[23] = {Shape::one_string, "hash"};
  table[24] = {Shape::hash_deadlines_from, "hash"};
  table[25] = {Shape::one_string_from, "hash"};
  table[type_stream_4] = {Shape::stream, "stream"};
  return table;
}();
static_assert(std::ranges::all_of(types,
                                  [](const Type& type) {
                                    return (type.shape == Shape::unknown) ==
                                           std::string_view(type.name).empty();
                                  }),
              "each type that is known has a name");

constexpr std::uint64_t sepal_cuckoo_id = value::module_id(cuckoo::redis_type_name, cuckoo::sepal_encoding);
constexpr std::uint64_t window_id = value::module_id(bloom::window_type_name, bloom::sepal_encoding);

// A module's id: nine letters of six bits each, and ten bits of version.
constexpr int module_version_bits = 10;
std::string module_name(std::uint64_t id) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  constexpr int letter_bits = 6;
  std::string name;
  for (int shift = 64 - letter_bits; shift >= module_version_bits; shift -= letter_bits)
    name += letters[id >> shift & (letters.size() - 1)];
  return name;
}

// Nothing: values of other types.
std::optional<RdbKey::Kind> kind_of_module(std::string_view name) {
  if (name == module_name(bloom::redisbloom_id)) return RdbKey::Kind::bloom;
  if (name == cuckoo::redis_type_name) return RdbKey::Kind::cuckoo;
  if (name == bloom::window_type_name) return RdbKey::Kind::window;
  return std::nullopt;
}

}  // namespace

// An error of the disk looks like the end of the file to the reader. problem() tells them apart by outcome_.
std::span<const std::byte> FileBytes::more() {
  SEPAL_ASSERT(offset_ <= end_, "a file is read behind its end");
  buffer_.resize(file_piece_bytes);
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), end_ - offset_));
  const auto read = file_.read_at(offset_, std::span(buffer_).first(count));
  if (!read) {
    outcome_ = read.error();
    return {};
  }
  offset_ += *read;
  return std::span(buffer_).first(*read);
}

bool FileBytes::skip(std::uint64_t byte_count) {
  if (byte_count > end_ - offset_) return false;
  offset_ += byte_count;
  return true;
}

Result<void> FileBytes::read_at(std::uint64_t offset, std::span<std::byte> into) {
  const auto read = file_.read_at(offset, into);
  if (!read) return read.error();
  if (*read != into.size()) return fail(Errc::damaged, "the file ends within a string");
  return {};
}

RdbFile::RdbFile(storage::File& file, std::uint64_t file_bytes, std::string name, Check check)
    : bytes_(file, 0, file_bytes),
      reader_(bytes_, check == Check::checksum ? rdb::Reader::Summing::yes : rdb::Reader::Summing::no),
      name_(std::move(name)),
      checks_(check == Check::checksum) {}

bool RdbFile::begins(std::span<const std::byte> bytes) {
  return begins_with(bytes, rdb_magic) || begins_with(bytes, valkey_magic);
}

Error RdbFile::error_at(Errc code, const std::string& what, const char* advice) const {
  return fail(code, name_ + ": " + what + " at offset " + std::to_string(reader_.offset()) + advice);
}

Error RdbFile::unknown(std::uint8_t type) const {
  return error_at(Errc::unsupported_version, "there is something of the unknown type " + std::to_string(type),
                  by_migrate);
}

// Why the reader failed.
Error RdbFile::problem() const {
  if (!bytes_.outcome()) return bytes_.outcome().error();
  return error_at(Errc::damaged, "the file ends too early, or is damaged");
}

Result<void> RdbFile::read_header() {
  std::string magic(rdb_magic.size(), '\0');
  reader_.read(std::as_writable_bytes(std::span(magic)));
  if (valkey_magic.starts_with(magic))
    return fail(Errc::unsupported_version,
                name_ + ": this is an RDB file of Valkey 9 or later, whose format is not read" + by_migrate);
  if (reader_.failed() || magic != rdb_magic)
    return fail(Errc::damaged, name_ + ": this is not an RDB file of Redis");
  unsigned version = 0;
  for (std::size_t i = 0; i < rdb_version_digits; ++i) {
    const unsigned digit = unsigned{reader_.byte()} - '0';
    if (digit > 9) return error_at(Errc::damaged, "the file has no version");
    version = 10 * version + digit;
  }
  if (version < rdb_version_min || version > rdb_version_max)
    return fail(Errc::unsupported_version,
                name_ +
                    format(": this is version %u of the RDB format, and versions %u to %u are read, those "
                           "of Redis 5 to 8.6",
                           version, rdb_version_min, rdb_version_max) +
                    by_migrate);
  begun_ = true;
  return {};
}

Result<std::optional<RdbKey>> RdbFile::next() {
  if (!begun_) {
    if (auto done = read_header(); !done) return done.error();
  }
  while (!ended_) {
    const std::uint8_t type = reader_.byte();
    if (reader_.failed()) return problem();
    // Types of values are small numbers, and opcodes are large ones. A number in between is neither.
    if (type < types.size()) {
      if (types[type].shape == Shape::unknown) return unknown(type);
      RdbKey key = read_key(type);
      if (reader_.failed()) return problem();
      return std::optional(std::move(key));
    }
    auto done = type == opcode::end ? read_end() : take_opcode(type);
    if (!done) return done.error();
    if (reader_.failed()) return problem();
  }
  return std::optional<RdbKey>();
}

Result<void> RdbFile::read_end() {
  // The checksum covers everything before itself, so it is computed before the stored one is read. A stored 0
  // means that Redis computed none.
  const std::uint64_t computed = checks_ ? reader_.checksum() : 0;
  const std::uint64_t stored = reader_.integer(sizeof computed);
  if (!reader_.failed() && checks_ && stored != 0 && stored != computed)
    return error_at(Errc::damaged, "the file is not what Redis wrote: another checksum");
  if (!reader_.failed() && !reader_.at_end()) return error_behind_end();
  // The look behind the end may have failed.
  if (!bytes_.outcome()) return bytes_.outcome();
  ended_ = true;
  return {};
}

Error RdbFile::error_behind_end() {
  Error behind = error_at(Errc::damaged, "something stands behind the end of the RDB file");
  if (!begins_commands(static_cast<char>(reader_.byte()))) return behind;
  return fail(Errc::unsupported_version, name_ + ": " + append_only_advice);
}

Result<void> RdbFile::take_opcode(std::uint8_t code) {
  constexpr keyspace::Deadline deadline_max = std::numeric_limits<keyspace::Deadline>::max();
  switch (code) {
    case opcode::database: database_ = reader_.length(); return {};
    case opcode::deadline_seconds:
      // 0 would stand for no deadline.
      deadline_ = std::max<keyspace::Deadline>(
          1, static_cast<keyspace::Deadline>(reader_.integer(sizeof(std::uint32_t)) * 1000));
      return {};
    case opcode::deadline_milliseconds:
      // A deadline before 1970 is past, as the first instant is.
      deadline_ = std::clamp<keyspace::Deadline>(
          static_cast<keyspace::Deadline>(reader_.integer(sizeof deadline_)), 1, deadline_max);
      return {};
    case opcode::idle: reader_.length(); return {};
    case opcode::frequency: reader_.byte(); return {};
    case opcode::about: {
      constexpr std::size_t names_max = 16;
      const auto name = reader_.text(names_max);
      const auto value = reader_.text(names_max);
      if (name == "aof-base" && value == "1") beside_.is_append_only_base = true;
      return {};
    }
    case opcode::function:
      skip_strings(1);
      ++beside_.function_libraries;
      return {};
    case opcode::key_metadata: skip_metadata(); return {};
    case opcode::sizes: skip_lengths(2); return {};
    case opcode::slot_info: skip_lengths(3); return {};
    case opcode::module_part:
      // The module's id. Behind it, the place in the file where the part belongs is a field as well.
      reader_.length();
      reader_.skip_fields();
      return {};
    default: return unknown(code);
  }
}

RdbKey RdbFile::read_key(std::uint8_t type) {
  SEPAL_ASSERT(type < types.size() && types[type].shape != Shape::unknown,
               "a key of an unknown type is read");
  RdbKey key{.database = database_,
             .key = reader_.text(keyspace::key_bytes_max),
             // The deadline stands before its key, and holds for that key only.
             .deadline = std::exchange(deadline_, keyspace::no_deadline),
             .type = types[type].name,
             .filter = {},
             .refusal = {},
             .string = {}};
  if (types[type].shape == Shape::module) {
    read_module(key);
  } else if (type == type_string) {
    key.kind = RdbKey::Kind::string;
    key.string = reader_.string();
  } else {
    skip_value(type);
  }
  return key;
}

void RdbFile::read_module(RdbKey& key) {
  const std::uint64_t id = reader_.length();
  if (reader_.failed()) return;
  const std::string name = module_name(id);
  // The name alone says whether this is a filter: the id also has the version of its encoding. A filter of an
  // unknown version is reported as refused, and not skipped as another type.
  const auto kind = kind_of_module(name);
  if (!kind) {
    key.type = name;
    return reader_.skip_fields();
  }
  key.kind = *kind;
  auto read = read_filter(id);
  if (!read) {
    key.refusal = "an unknown version of RedisBloom or Sepal wrote it";
    return reader_.skip_fields();
  }
  if (*read) {
    key.filter = std::move(**read);
  } else {
    key.refusal = read->error().detail;
  }
}

// Nothing: the id has an unknown version.
std::optional<Result<RdbImage>> RdbFile::read_filter(std::uint64_t id) {
  if (id == bloom::redisbloom_id || id == bloom::sepal_id) return read_bloom(id);
  if (id == cuckoo::redis_id) return read_cuckoo();
  if (id == sepal_cuckoo_id)
    return read_sepal_image({value::Kind::cuckoo, value::Kind::redis_cuckoo}, "this is no cuckoo filter");
  if (id == window_id) return read_sepal_image({value::Kind::window}, "this is no filter with a window");
  return std::nullopt;
}

Result<RdbImage> RdbFile::read_bloom(std::uint64_t id) {
  auto read = bloom::read_rdb_filter(reader_, id, moved_limits.layers_max);
  if (!read) return read.error();
  RdbImage image{.head = bloom::encode(read->image),
                 .body = std::move(read->bits),
                 .body_bytes = read->image.bitmap_bytes(),
                 .layer_count = read->image.layers.size()};
  for (const auto& layer : read->image.layers) image.item_count += layer.item_count;
  return image;
}

Result<RdbImage> RdbFile::read_cuckoo() {
  const auto read = cuckoo::read_redis_fields(reader_);
  if (!read) return read.error();
  const cuckoo::RedisHeader& header = read->header;
  if (header.layer_count > moved_limits.layers_max)
    return fail(Errc::layer_limit, format("the filter has more than %u layers, the limit (layers_max)",
                                          moved_limits.layers_max));
  const value::Shape shape = cuckoo::redis_image_shape(header);
  const auto head = cuckoo::redis_image_head(header);
  RdbImage image{.head = {head.begin(), head.end()},
                 .body = {},
                 .body_bytes = shape.body_bytes,
                 .item_count = shape.item_count,
                 .layer_count = header.layer_count};
  for (std::uint32_t layer = 0; layer < header.layer_count; ++layer)
    image.body.push_back({.string = read->slots[layer], .byte_count = header.layer_slots(layer)});
  image.body.push_back({.string = {}, .byte_count = shape.body_bytes - header.slot_count()});
  return image;
}

// Reads a filter of one of these kinds that sepal.so has saved.
Result<RdbImage> RdbFile::read_sepal_image(std::initializer_list<value::Kind> kinds, const char* refusal) {
  const auto read = value::read_module_image(reader_, moved_limits);
  if (!read) return read.error();
  if (std::ranges::find(kinds, read->row->kind) == kinds.end()) return fail(Errc::out_of_range, refusal);
  const auto head = std::as_bytes(std::span(read->head));
  RdbImage image{.head = {head.begin(), head.end()},
                 .body = {},
                 .body_bytes = read->shape.body_bytes,
                 .item_count = read->shape.item_count};
  for (const auto& [string, byte_count] : read->pieces)
    image.body.push_back({.string = string, .byte_count = byte_count});
  return image;
}

// For each module: four bytes that name it, and its fields.
void RdbFile::skip_metadata() {
  constexpr std::uint64_t module_bytes = 4;
  for (std::uint64_t modules = reader_.length(); modules != 0 && !reader_.failed(); --modules) {
    reader_.skip(module_bytes);
    reader_.skip_fields();
    ++beside_.metadata;
  }
}

void RdbFile::skip_strings(std::uint64_t count) {
  for (; count != 0 && !reader_.failed(); --count) reader_.string();
}

void RdbFile::skip_lengths(int count) {
  for (; count != 0; --count) reader_.length();
}

void RdbFile::skip_scored(bool as_text) {
  // The first byte is the length of the text. The values above stand for infinity and for no number, and no
  // text follows.
  constexpr std::uint8_t text_bytes_max = 252;
  for (std::uint64_t count = reader_.length(); count != 0 && !reader_.failed(); --count) {
    reader_.string();
    const std::uint8_t text_bytes = as_text ? reader_.byte() : std::uint8_t{sizeof(double)};
    if (text_bytes <= text_bytes_max) reader_.skip(text_bytes);
  }
}

void RdbFile::skip_value(std::uint8_t type) {
  switch (types[type].shape) {
    case Shape::one_string_from: reader_.skip(sizeof(std::uint64_t)); return skip_strings(1);
    case Shape::one_string: return skip_strings(1);
    case Shape::strings: return skip_strings(reader_.length());
    case Shape::pairs:
      for (std::uint64_t count = reader_.length(); count != 0 && !reader_.failed(); --count) skip_strings(2);
      return;
    case Shape::scored_text:
    case Shape::scored: return skip_scored(types[type].shape == Shape::scored_text);
    case Shape::nodes:
      for (std::uint64_t count = reader_.length(); count != 0 && !reader_.failed(); --count) {
        reader_.length();
        reader_.string();
      }
      return;
    case Shape::hash_deadlines_from: reader_.skip(sizeof(std::uint64_t)); [[fallthrough]];
    case Shape::hash_deadlines:
      for (std::uint64_t count = reader_.length(); count != 0 && !reader_.failed(); --count) {
        reader_.length();
        skip_strings(2);
      }
      return;
    case Shape::stream: return read_stream(type);
    default: return;
  }
}

// The shape of a stream: its nodes; its numbers; its groups. The second and third forms only have more
// numbers.
void RdbFile::read_stream(std::uint8_t type) {
  for (std::uint64_t nodes = reader_.length(); nodes != 0 && !reader_.failed(); --nodes) skip_strings(2);
  // Its length and last id, and since the second form its first id, the highest deleted id, and a count.
  skip_lengths(type == type_stream_1 ? 3 : 8);
  for (std::uint64_t groups = reader_.length(); groups != 0 && !reader_.failed(); --groups) skip_group(type);
  if (type == type_stream_4) skip_producers();
}

// A group of a stream, with the entries that wait for an acknowledgement, and with its consumers. Ids have a
// fixed size here, because Redis writes them without a length.
void RdbFile::skip_group(std::uint8_t type) {
  constexpr std::uint64_t id_bytes = 16;
  constexpr std::uint64_t time_bytes = 8;
  reader_.string();
  skip_lengths(type == type_stream_1 ? 2 : 3);
  for (std::uint64_t pending = reader_.length(); pending != 0 && !reader_.failed(); --pending) {
    reader_.skip(id_bytes + time_bytes);
    reader_.length();
  }
  for (std::uint64_t consumers = reader_.length(); consumers != 0 && !reader_.failed(); --consumers) {
    reader_.string();
    reader_.skip(type >= type_stream_3 ? 2 * time_bytes : time_bytes);
    for (std::uint64_t pending = reader_.length(); pending != 0 && !reader_.failed(); --pending)
      reader_.skip(id_bytes);
  }
}

// What the fourth form of a stream has behind its groups: two settings; the producers, each with the ids of
// its messages and the entries that these became; two counts.
void RdbFile::skip_producers() {
  skip_lengths(2);
  for (std::uint64_t producers = reader_.length(); producers != 0 && !reader_.failed(); --producers) {
    reader_.string();
    for (std::uint64_t messages = reader_.length(); messages != 0 && !reader_.failed(); --messages) {
      reader_.string();
      skip_lengths(2);
    }
  }
  skip_lengths(2);
}

}  // namespace sepal::tools
