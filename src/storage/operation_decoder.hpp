// Takes the operations of a frame apart, and believes nothing of them.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/layer_plan.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/mirrors.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/journal_format.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sepal::storage {

// Views are of the frame's body. Only what belongs to the kind means something.
struct DecodedOperation {
  format::Operation operation{};
  std::uint32_t database = 0;
  std::string_view key;
  std::uint32_t count = 0;                  // added, created: of fingerprints,
  std::span<const std::byte> fingerprints;  // which these are, at any alignment
  filter::FilterOptions options;            // created
  filter::LayerPlan layer;                  // created, grown
  keyspace::Deadline deadline = 0;          // expires, adopted
  std::span<const std::byte> image;         // adopted; empty when the filter is in
  keyspace::ImageFile file;                 // this one
  std::uint32_t other = 0;                  // moved, swapped: the other database
  std::string_view target;                  // renamed, mirrored
  keyspace::MirrorState mirror_state{};     // mirrored
  std::uint64_t items_before = 0;           // mirrored
};

// Behind those that are there already. The bytes are those of DecodedOperation::fingerprints.
void append_fingerprints(std::span<const std::byte> bytes, std::vector<Fingerprint>& to);

// Confined.
class OperationDecoder {
 public:
  explicit OperationDecoder(std::span<const std::byte> body) : body_(body) {}

  [[nodiscard]] bool at_end() const { return at_ == body_.size(); }
  // Of the operation that comes next, in the body.
  [[nodiscard]] std::size_t offset() const { return at_; }
  // Not at the end. Valid until the next call. Errors: damaged, with what is wrong and without a place.
  Result<const DecodedOperation*> next();

 private:
  template <class Structure>
  bool take(Structure& into);
  bool take(std::size_t count, std::string_view& into);
  Result<void> take_key(const format::OperationHead& head);
  Result<void> take_rest(const format::OperationHead& head);
  Result<void> take_created(const format::OperationHead& head);
  Result<void> take_items();
  Result<void> take_layer();
  Result<void> take_deadline();
  Result<void> take_adopted();
  Result<void> take_mirror();
  Result<void> take_target();
  Result<void> take_other();

  std::span<const std::byte> body_;
  std::size_t at_ = 0;
  DecodedOperation operation_;
  bool has_key_ = false;
  std::uint32_t database_ = 0;    // of the key
  std::string_view key_;          // of the operation before
  format::CreatedShape created_;  // of the newest `created`
  bool has_created_ = false;
};

}  // namespace sepal::storage
