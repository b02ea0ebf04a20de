// Replies into bytes, RESP2 or RESP3. One Reply is the output of one connection: handlers append to it, the
// session sends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sepal::resp {

enum class Version : std::uint8_t { resp2 = 2, resp3 = 3 };

// Confined to its session. Appends to a buffer that it owns; nothing here fails, and nothing allocates once
// the buffer has grown. The caller sees to it that what it announces (the length of an array) is what it
// appends.
class Reply {
 public:
  [[nodiscard]] Version version() const { return version_; }
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
  void booleans(std::span<const bool> values);  // the elements of an announced array, in bulk
  void real(double value);  // the shortest digits that read back as the same value; RESP2: bulk
  void bulk(std::string_view bytes);
  void verbatim(std::string_view text);                                         // "txt"; RESP2: bulk
  void null() { raw(version_ == Version::resp2 ? "$-1\r\n" : "_\r\n"); }        // RESP2: null bulk
  void null_array() { raw(version_ == Version::resp2 ? "*-1\r\n" : "_\r\n"); }  // RESP3: null
  void array(std::size_t length);
  void map(std::size_t pairs);   // RESP2: array of twice as many
  void set(std::size_t length);  // RESP2: array
  void raw(std::string_view encoded) { buffer_.append(encoded); }

  [[nodiscard]] std::string_view bytes() const { return buffer_; }
  [[nodiscard]] std::size_t size() const { return buffer_.size(); }
  [[nodiscard]] std::uint64_t error_count() const { return error_count_; }  // over the life of this object
  // The text of the last error appended (without '-'), for the statistics of errors by their first word.
  [[nodiscard]] std::string_view last_error() const { return last_error_; }
  void truncate(std::size_t size) { buffer_.resize(size); }  // takes back what was appended after that size
  // Hands over the bytes and leaves an empty buffer; `into` (emptied) becomes the new buffer, so that two
  // buffers serve a connection for ever.
  void swap_out(std::string& into) {
    into.clear();
    into.swap(buffer_);
  }

 private:
  void line(char type, std::string_view text);
  void number(char type, std::int64_t value);
  void count(char type, std::size_t value);

  std::string buffer_;
  std::string last_error_;
  std::uint64_t error_count_ = 0;
  Version version_ = Version::resp2;
};

}  // namespace sepal::resp
