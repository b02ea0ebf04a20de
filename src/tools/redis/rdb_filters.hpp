// The filters and strings of an RDB file, one after the other, their bits read from the file when they are
// written.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/generation/streamed_filter.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/redis/moved_keys.hpp"
#include "tools/redis/rdb_file.hpp"
#include "tools/shell/progress.hpp"

namespace sepal::tools {

// Confined. Blocks. Memory: fixed buffers and one key; the first time through also one filter, where its
// bytes may contradict themselves. Errors: those of RdbFile.
class RdbFilters final : public storage::FilterStream {
 public:
  enum class Taken : std::uint8_t { all, bloom_filters };

  // All outlive this object. Keys past their deadline at `now` are left out, as Redis leaves them out.
  RdbFilters(storage::File& file, std::uint64_t file_bytes, std::string name, WallTime now, Taken taken,
             Progress& progress);

  // The first time through the file checks its checksum, the others do not.
  Result<void> rewind() override;
  Result<const storage::StreamedFilter*> next() override;

  // Whether Redis wrote the file as the base of an append-only file. Known once next() has told the end.
  [[nodiscard]] bool is_append_only_base() const { return rdb_ && rdb_->beside().is_append_only_base; }
  // Since the last rewind().
  [[nodiscard]] const MovedKeys& keys() const { return keys_; }

 private:
  // Reads the bits of the key at hand.
  class Bits final : public storage::BitStream {
   public:
    void begin(std::span<const bloom::RdbBits> parts, rdb::Bytes& bytes);
    Result<void> read(std::span<std::byte> into) override;

   private:
    Result<void> open_string();
    Result<void> open_number(const bloom::RdbBits& bits);

    std::span<const bloom::RdbBits> parts_;  // that follow
    rdb::Bytes* bytes_ = nullptr;
    std::uint64_t left_ = 0;  // of the bits of the string at hand
    bool zeros_ = false;      // these bits are zeros
    std::optional<rdb::StringReader> reader_;
    // The string at hand, if it is a number: the file does not have its digits.
    std::string digits_;
    std::optional<rdb::BytesInMemory> digit_bytes_;
  };

  Result<bool> take(RdbKey& key);
  void note_filter(const RdbKey& key);
  void note_end();
  Result<void> take_string(RdbKey& key);
  Result<void> check_numbers(RdbKey& key);
  Result<void> check_body(RdbKey& key);
  [[nodiscard]] Result<void> try_body(const RdbImage& image);
  void describe_string();
  void describe_filter(RdbImage& filter);
  [[nodiscard]] std::string reason_against(const RdbKey& key) const;

  storage::File& file_;
  std::uint64_t file_bytes_;
  std::string name_;
  WallTime now_;
  Taken taken_;
  Progress& progress_;
  bool checked_ = false;
  // The reasons against keys whose bodies are wrong, by the offset behind the key. Known from the first time
  // through.
  std::map<std::uint64_t, std::string> wrong_bodies_;
  std::optional<RdbFile> rdb_;
  std::optional<RdbKey> key_;
  std::array<bloom::RdbBits, 2> string_parts_;  // where the key is one of a string
  Bits bits_;
  std::vector<std::byte> head_;  // of its image
  storage::StreamedFilter filter_;
  MovedKeys keys_;
};

}  // namespace sepal::tools
