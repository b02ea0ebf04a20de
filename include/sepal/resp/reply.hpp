// Encodes replies as RESP2 or RESP3. One Reply is the output of one connection: handlers append to it, and
// the session sends it.
#pragma once

#include <sepal/base/assert.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::resp {

inline constexpr std::size_t last_error_bytes_max = 1024;

enum class Version : std::uint8_t { resp2 = 2, resp3 = 3 };

// Bytes that stay where they are until a reply takes them, such as those of a long string.
class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  // Copies bytes [offset, offset + to.size()), which the source has. Inside the gate.
  virtual void read(std::uint64_t offset, std::span<char> to) const = 0;
};

// A piece of a reply that is filled in later: bytes of its own, or so many bytes of a source. The source goes
// when they are filled in.
struct Piece {
  std::string bytes{};
  std::unique_ptr<const Source> source{};
  std::uint64_t source_bytes = 0;

  [[nodiscard]] std::uint64_t size() const { return source == nullptr ? bytes.size() : source_bytes; }
};

// Confined to its session. Appends to a buffer that it owns. Nothing here fails, and nothing allocates once
// the buffer has grown. The caller must append what it has announced: an array gets as many elements as its
// length says.
class Reply {
 public:
  [[nodiscard]] Version version() const { return version_; }
  [[nodiscard]] bool is_resp3() const { return version_ == Version::resp3; }
  void set_version(Version version) { version_ = version; }

  void ok() { raw("+OK\r\n"); }
  void simple(std::string_view text);  // no CR or LF inside: they become spaces
  void error(std::string_view text);   // without '-'; CR and LF become spaces. Counted.
  void integer(std::int64_t value) {
    if (value == 0 || value == 1) return raw(value == 1 ? ":1\r\n" : ":0\r\n");
    number(':', value);
  }
  void integer_unsigned(std::uint64_t value);  // above INT64_MAX: a bulk of its digits
  void boolean(bool value) {                   // RESP2: integer 0 or 1
    if (version_ == Version::resp2) return raw(value ? ":1\r\n" : ":0\r\n");
    raw(value ? "#t\r\n" : "#f\r\n");
  }
  void booleans(std::span<const bool> values);  // the elements of an array that was announced
  // The shortest digits that read back as the same value, written as the reference does; RESP2: bulk.
  void real(double value);
  void bulk(std::string_view bytes);
  void verbatim(std::string_view text);                                         // "txt"; RESP2: bulk
  void null() { raw(version_ == Version::resp2 ? "$-1\r\n" : "_\r\n"); }        // RESP2: null bulk
  void null_array() { raw(version_ == Version::resp2 ? "*-1\r\n" : "_\r\n"); }  // RESP3: null
  void array(std::size_t length);
  void map(std::size_t pairs);   // RESP2: array of twice as many
  void set(std::size_t length);  // RESP2: array
  // The name in a pair of a map. Its value comes next: reply.field("port").integer(6379).
  Reply& field(std::string_view name) {
    bulk(name);
    return *this;
  }
  void raw(std::string_view encoded) { buffer_.append(encoded); }
  // A long value whose bytes are there already, or in a source. They are not copied now: fill() appends them
  // piece by piece, so that one long reply does not hold up the other connections. Nothing else may be
  // appended before that. A long piece has about mapped_allocation_min (base/free_memory.hpp).
  void bulk_later(std::vector<Piece> pieces);
  void bulk_later(std::vector<std::string> pieces);
  void raw_later(std::vector<Piece> pieces);  // encoded
  [[nodiscard]] bool has_later() const { return later_ != nullptr; }
  [[nodiscard]] std::uint64_t bytes_later() const { return has_later() ? later_->bytes_left : 0; }
  // Appends these bytes until bytes() has `size_max`, or all are appended; frees their memory.
  void fill(std::size_t size_max);

  // Appends all of them.
  void fill_whole() {
    if (has_later()) fill(std::numeric_limits<std::size_t>::max());
  }

  // From here on, a bulk that would make the reply longer than this is left out. The reply is no RESP then,
  // and the caller drops it.
  void limit(std::size_t bytes_max) { bytes_max_ = bytes_max; }
  [[nodiscard]] bool overflowed() const { return overflowed_; }

  [[nodiscard]] std::string_view bytes() const { return buffer_; }
  [[nodiscard]] std::size_t size() const { return buffer_.size(); }
  [[nodiscard]] std::size_t capacity() const { return buffer_.capacity(); }  // the memory of bytes()
  [[nodiscard]] std::uint64_t error_count() const { return error_count_; }   // over the life of this object
  // The text of the last error appended (without '-'), for the statistics of errors by their first word. A
  // script's error may be long: the text has no more than last_error_bytes_max.
  [[nodiscard]] std::string_view last_error() const { return last_error_; }
  // Drops what was appended behind that size.
  void truncate(std::size_t size) {
    SEPAL_ASSERT(size <= buffer_.size(), "a reply is cut behind its end");
    buffer_.resize(size);
  }
  // As truncate(), and drops what was to be appended later.
  void drop(std::size_t size) {
    truncate(size);
    overflowed_ = false;
    later_.reset();
  }
  // Hands over the bytes and leaves an empty buffer. `into` is emptied and becomes the new buffer, so two
  // buffers serve a connection for ever.
  void swap_out(std::string& into) {
    into.clear();
    into.swap(buffer_);
  }

 private:
  void line(char type, std::string_view text);
  void number(char type, std::int64_t value);
  void count(char type, std::size_t value);
  void append_part(const Piece& piece, std::uint64_t offset, std::size_t byte_count);
  // False: the bytes go beyond the limit.
  bool takes(std::size_t bytes) {
    if (buffer_.size() + bytes <= bytes_max_) return true;
    overflowed_ = true;
    return false;
  }

  struct Later {
    std::vector<Piece> pieces;
    std::size_t piece = 0;     // the first one of which bytes are left
    std::uint64_t offset = 0;  // in that piece
    std::uint64_t bytes_left = 0;
  };

  std::string buffer_;
  std::unique_ptr<Later> later_;  // null: there is nothing to fill in
  std::string last_error_;
  std::uint64_t error_count_ = 0;
  std::size_t bytes_max_ = std::numeric_limits<std::size_t>::max();
  bool overflowed_ = false;
  Version version_ = Version::resp2;
};

}  // namespace sepal::resp
