// Filters that are in no memory: a tool reads them from elsewhere and writes them to a disk, bit by bit.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/keyspace/deadline.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::storage {

// The body of a value's image as one run of bytes. Confined.
class BitStream {
 public:
  virtual ~BitStream() = default;
  // Fills all of `into` with the next bytes. The callers ask for no more than the filter has. Blocks. The
  // errors are the stream's own.
  virtual Result<void> read(std::span<std::byte> into) = 0;
};

// Views, valid as long as their owner says.
struct StreamedFilter {
  std::uint32_t database = 0;  // below keyspace::database_count
  std::string_view key;        // at most keyspace::key_bytes_max bytes
  keyspace::Deadline deadline = keyspace::no_deadline;
  std::span<const std::byte> head{};  // of its image
  std::uint64_t body_bytes = 0;       // as the head says, and the next one too
  std::uint64_t item_count = 0;
  BitStream* bits = nullptr;
};

// Confined. Blocks. The errors are the stream's own.
class FilterStream {
 public:
  virtual ~FilterStream() = default;
  // next() begins anew, and gives the same filters in the same order.
  virtual Result<void> rewind() = 0;
  // The next filter, valid until the next call; null at the end. Each database has a key once.
  virtual Result<const StreamedFilter*> next() = 0;
};

}  // namespace sepal::storage
