// Decodes the operations of a frame, and checks every field of them.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/keyspace/mutation.hpp>
#include <sepal/storage/format/journal_format.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace sepal::storage {

// Views point into the frame's body.
struct DecodedOperation {
  format::AnyOperation change;
  keyspace::DatabaseKey key;                // of an empty text where the kind has no key
  std::uint32_t count = 0;                  // added, made: the number of entries
  std::span<const std::byte> fingerprints;  // added, made: the entries; at any alignment
};

// Appends the fingerprints to `to`. `bytes` is DecodedOperation::fingerprints.
void append_fingerprints(std::span<const std::byte> bytes, std::vector<Fingerprint>& to);

// Bytes that are taken from front to back. Confined.
class BodyReader {
 public:
  explicit BodyReader(std::span<const std::byte> body) : body_(body) {}

  [[nodiscard]] std::size_t offset() const { return at_; }
  [[nodiscard]] bool at_end() const { return at_ == body_.size(); }
  // False, without taking anything, if there are fewer bytes.
  template <class Structure>
  [[nodiscard]] bool take(Structure& into) {
    if (body_.size() - at_ < sizeof into) return false;
    std::memcpy(&into, body_.data() + at_, sizeof into);
    at_ += sizeof into;
    return true;
  }
  [[nodiscard]] bool take(std::uint64_t count, std::span<const std::byte>& into) {
    if (body_.size() - at_ < count) return false;
    into = body_.subspan(at_, static_cast<std::size_t>(count));
    at_ += into.size();
    return true;
  }
  [[nodiscard]] bool take(std::uint64_t count, std::string_view& into) {
    std::span<const std::byte> bytes;
    if (!take(count, bytes)) return false;
    into = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return true;
  }

 private:
  std::span<const std::byte> body_;
  std::size_t at_ = 0;
};

// Confined.
class OperationDecoder {
 public:
  explicit OperationDecoder(std::span<const std::byte> body) : body_(body) {}

  [[nodiscard]] bool at_end() const { return body_.at_end(); }
  [[nodiscard]] std::size_t offset() const { return body_.offset(); }
  // Not called at the end. The result is valid until the next call. Errors, with what is wrong, without a
  // place: damaged; unsupported_version for a value of a kind that this build does not know.
  Result<const DecodedOperation*> next();

 private:
  // Each of these returns what is wrong; null: nothing. An operation of an earlier form has the bytes of
  // that.
  template <class... Changes>
  const char* take_any(const format::OperationHead& head, std::variant<Changes...>& into);
  const char* take_earlier(format::OperationHead head);
  template <class Change>
  const char* take_operation(const format::OperationHead& head, Change& change,
                             const format::EarlierForm* earlier = nullptr);
  const char* take_key(const format::OperationHead& head);
  template <class Change>
  const char* take_fields(const format::OperationHead& head, Change& change,
                          const format::EarlierForm* earlier);
  const char* take_bytes(const format::EarlierForm* earlier, std::span<const std::byte>& into);

  BodyReader body_;
  DecodedOperation operation_;
  bool has_key_ = false;                // The next operation may have the key of operation_.
  std::optional<keyspace::Made> made_;  // the newest `made` that has a head
};

}  // namespace sepal::storage
