// Reads an RDB file of Redis, versions 9 to 13: its filters, and enough of all other values to get behind
// them.
//
//     "REDIS" and four digits: the version
//     items, each with one byte of type: opcodes (a database is selected, the next key has a deadline, ...),
//     or a key and its value
//     255, and 8 bytes CRC-64 over everything before it, little endian; 0: Redis was told to compute none
//
// bloom/foreign/rdb.hpp and cuckoo/foreign/redis_payload.hpp describe the values of RedisBloom's filters,
// value/module_payload.hpp those of sepal.so, and rdb/reader.hpp lengths, strings and modules' fields.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/value/value.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sepal::tools {

// The bytes of a file from an offset on. Confined. Blocks.
class FileBytes final : public rdb::Source, public rdb::Bytes {
 public:
  FileBytes(storage::File& file, std::uint64_t offset, std::uint64_t end)
      : file_(file), offset_(offset), end_(end) {}

  std::span<const std::byte> more() override;
  bool skip(std::uint64_t byte_count) override;
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> into) override;
  // The first error of more().
  [[nodiscard]] const Result<void>& outcome() const { return outcome_; }

 private:
  storage::File& file_;
  std::uint64_t offset_;
  std::uint64_t end_;
  std::vector<std::byte> buffer_;
  Result<void> outcome_;
};

// A filter of the file as a value of sepald: the head of its image, and where the bytes of the body are.
struct RdbImage {
  std::vector<std::byte> head;
  std::vector<bloom::RdbBits> body;
  std::uint64_t body_bytes = 0;
  std::uint64_t item_count = 0;
  std::size_t layer_count = 0;  // 0: not known
};

struct RdbKey {
  enum class Kind : std::uint8_t { bloom, cuckoo, window, string, other };

  std::uint64_t database = 0;
  std::optional<std::string> key;  // nothing where it is longer than keyspace::key_bytes_max
  keyspace::Deadline deadline = keyspace::no_deadline;
  Kind kind = Kind::other;
  std::string type;  // in words: "hash", "TopK-TYPE"
  // The filter, if the value is one. Nothing if the filter is refused: then `refusal` says why.
  std::optional<RdbImage> filter;
  std::string refusal;
  // Where the bytes of the string are, if the value is one.
  rdb::String string;
};

struct RdbBeside {
  // Redis wrote the file as the base of an append-only file. Other files may have later changes.
  bool is_append_only_base = false;
  std::uint64_t function_libraries = 0;
  std::uint64_t metadata = 0;  // that modules have put on keys
};

// Whether the commands of an append-only file begin so: a list, or a note.
[[nodiscard]] constexpr bool begins_commands(char first) {
  return first == '*' || first == '#';
}
inline constexpr const char* append_only_advice =
    "this is an append-only file, and only a server can run its commands; let Redis write an RDB file "
    "(BGSAVE) "
    "and convert that, or copy the keys with sepal migrate";

// Confined. Blocks. All errors begin with the name of the file. Memory: one fixed buffer and one key.
// Believes no byte.
class RdbFile {
 public:
  enum class Check : std::uint8_t { checksum, none };

  // `file` outlives this object.
  RdbFile(storage::File& file, std::uint64_t file_bytes, std::string name, Check check);

  // Whether a file that begins so is an RDB file of any version.
  static bool begins(std::span<const std::byte> bytes);

  // The next key; nothing at the end, once the checksum is found right and nothing stands behind it. Errors:
  // damaged, unsupported_version, those of the disk.
  Result<std::optional<RdbKey>> next();
  // What was read so far.
  [[nodiscard]] std::uint64_t offset() const { return reader_.offset(); }
  [[nodiscard]] const RdbBeside& beside() const { return beside_; }
  [[nodiscard]] rdb::Bytes& bytes() { return bytes_; }

 private:
  Result<void> read_header();
  Result<void> read_end();
  Result<void> take_opcode(std::uint8_t opcode);
  RdbKey read_key(std::uint8_t type);
  void read_module(RdbKey& key);
  [[nodiscard]] std::optional<Result<RdbImage>> read_filter(std::uint64_t id);
  [[nodiscard]] Result<RdbImage> read_bloom(std::uint64_t id);
  [[nodiscard]] Result<RdbImage> read_cuckoo();
  [[nodiscard]] Result<RdbImage> read_sepal_image(std::initializer_list<value::Kind> kinds,
                                                  const char* refusal);
  void read_stream(std::uint8_t type);
  void skip_value(std::uint8_t type);
  void skip_strings(std::uint64_t count);
  void skip_lengths(int count);
  void skip_group(std::uint8_t type);
  void skip_scored(bool as_text);
  void skip_metadata();
  void skip_producers();
  [[nodiscard]] Error problem() const;
  [[nodiscard]] Error error_at(Errc code, const std::string& what, const char* advice = "") const;
  [[nodiscard]] Error unknown(std::uint8_t type) const;
  [[nodiscard]] Error error_behind_end();

  FileBytes bytes_;
  rdb::Reader reader_;
  std::string name_;
  bool checks_;
  bool begun_ = false;
  bool ended_ = false;
  std::uint64_t database_ = 0;
  keyspace::Deadline deadline_ = keyspace::no_deadline;
  RdbBeside beside_;
};

}  // namespace sepal::tools
