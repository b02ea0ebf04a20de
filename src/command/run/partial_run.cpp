// A part of a request answers as a whole request does, and its encoded reply is taken apart here. Only the
// first line matters: '*' gives the number of elements, and all bytes behind it are elements; ':' is a number
// to add up; anything else is an error. The elements are never decoded. The head of the array is written at
// the end, when their number is known.
#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/base/whole_number.hpp>
#include <sepal/command/run/partial_run.hpp>

#include <utility>

namespace sepal::command {
namespace {

constexpr std::string_view line_end = "\r\n";

// The number in the first line of an encoded array or integer.
std::int64_t number_in(std::string_view first_line) {
  const auto number = parse_whole<std::int64_t>(first_line.substr(1));
  SEPAL_ASSERT(number.has_value(), "a part answers an array or an integer");
  return *number;
}

}  // namespace

void PartialRun::join(std::string_view reply) {
  SEPAL_ASSERT(kind_ != Kind::error, "a request goes on after a part of it has failed");
  const std::size_t first_line_bytes = reply.find(line_end);
  SEPAL_ASSERT(first_line_bytes != std::string_view::npos, "a part answers one whole value");
  const std::string_view first_line = reply.substr(0, first_line_bytes);
  if (first_line.front() == '*') {
    SEPAL_ASSERT(kind_ != Kind::sum, "a part answers an array, and one before it answered an integer");
    kind_ = Kind::array;
    element_count += static_cast<std::size_t>(number_in(first_line));
    elements.raw(reply.substr(first_line_bytes + line_end.size()));
    keep();
  } else if (first_line.front() == ':') {
    SEPAL_ASSERT(kind_ != Kind::array, "a part answers an integer, and one before it answered an array");
    kind_ = Kind::sum;
    sum_ += number_in(first_line);
  } else if (kind_ == Kind::array) {
    // The array has begun, so the error becomes its last element.
    end();
    ++element_count;
    elements.raw(reply);
  } else {
    kind_ = Kind::error;
    error_ = reply;
  }
}

// Each piece is an allocation of its own, which goes back to the system when its bytes have left
// (base/free_memory.hpp).
void PartialRun::keep() {
  if (elements.size() >= mapped_allocation_min) cut();
}

void PartialRun::cut() {
  bytes_in_pieces_ += elements.size();
  std::string& piece = pieces.emplace_back().bytes;
  elements.swap_out(piece);
  memory_of_pieces_ += piece.capacity();
}

// Reserved as a whole, a piece never moves while parts are appended to it. It is mapped by itself, so it goes
// back to the system as soon as its bytes are in the reply (Reply::fill).
void PartialRun::append_bytes(std::string_view part) {
  static_assert(mapped_allocation_min % part_bytes_max == 0, "a piece is full behind a part");
  SEPAL_ASSERT(part.size() <= part_bytes_max, "a part is longer than parts are");
  if (pieces.empty() || pieces.back().bytes.size() == mapped_allocation_min) {
    pieces.emplace_back().bytes.reserve(mapped_allocation_min);
    memory_of_pieces_ += pieces.back().bytes.capacity();
  }
  pieces.back().bytes.append(part);
  bytes_in_pieces_ += part.size();
}

void PartialRun::append_source(std::unique_ptr<const resp::Source> source, std::uint64_t byte_count) {
  elements.raw("$" + std::to_string(byte_count) + std::string(line_end));
  cut();
  pieces.push_back({.source = std::move(source), .source_bytes = byte_count});
  elements.raw(line_end);
}

// The keys are few, and each was in memory before. Only their list counts.
std::uint64_t PartialRun::byte_count() const {
  return keys.capacity() * sizeof(std::string) + elements.capacity() + bytes.capacity() +
         pieces.capacity() * sizeof(resp::Piece) + memory_of_pieces_ +
         (own == nullptr ? 0 : own->byte_count());
}

// A short array is copied into the reply. The pieces of a long one are handed over, and the reply is filled
// from them later, so that no other client waits for one long copy.
void PartialRun::append_elements(resp::Reply& reply) {
  if (pieces.empty()) return reply.raw(elements.bytes());
  cut();
  reply.raw_later(std::move(pieces));
}

void PartialRun::answer(resp::Reply& reply) {
  SEPAL_ASSERT(kind_ != Kind::none, "a part has run");
  if (kind_ == Kind::sum) return reply.integer(sum_);
  if (kind_ == Kind::error) return reply.raw(error_);
  reply.array(element_count);
  append_elements(reply);
}

}  // namespace sepal::command
