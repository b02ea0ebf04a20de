// A long request runs in parts, so that other clients do not wait for all of it.
//
//     BF.MADD key i1 ... i1000000  -->  BF.MADD key i1 ... i256
//                                       (other clients)
//                                       BF.MADD key i257 ... i512
//                                       ...
//
// The dispatcher cuts a request of many items: each part is a request of its own, which has the first words
// of the whole request and some of its items. The whole request gets one reply, joined from the replies of
// its parts: arrays are appended, integers are added up. A handler that visits all keys (KEYS, SCAN) keeps a
// cursor here instead.
//
// Between two parts, other clients run. docs/protocol.md, "Long requests", says what they may change.
#pragma once

#include <sepal/base/glob.hpp>
#include <sepal/resp/reply.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

// A request with more items than this is cut.
inline constexpr std::size_t whole_items_max = 1024;
// A part ends behind so many items, or behind the item with which it reaches so many bytes. A part takes a
// quarter of a millisecond when each item meets memory that was never touched.
inline constexpr std::size_t part_items_max = 256;
inline constexpr std::size_t part_bytes_max = 256 * 1024;
// A request with more bytes than this is cut, whatever the number of its items.
inline constexpr std::size_t whole_bytes_max = 4 * part_bytes_max;
// A request that must run at once, because it is atomic, may have so many pairs (MSET) or operations
// (BITFIELD), and so many words if it always runs with the gate closed (Flag::alone).
inline constexpr std::size_t at_once_max = 65536;

// What is known of a request of which a part has run, or will soon. Belongs to the session.
class PartialRun {
 public:
  // What a handler keeps that no other handler needs.
  class Own {
   public:
    virtual ~Own() = default;
    // The memory that it holds.
    [[nodiscard]] virtual std::uint64_t byte_count() const = 0;
  };

  std::size_t next_word = 0;        // where the next part begins; 0: no part has run, or it is not cut
  std::uint64_t cursor = 0;         // how far a handler has come that scans, or copies
  std::uint64_t counted = 0;        // by a handler that counts
  std::uint64_t keys_left = 0;      // of a handler that scans: how many it is to visit
  std::vector<std::string> keys;    // of a handler that scans: those that it visits now
  std::size_t next_key = 0;         // of these, the next one
  Matching matching;                // of that key with the pattern, which goes on in the next part
  std::size_t pattern_word = 0;     // the word that keys have to match; 0: none
  std::size_t type_word = 0;        // the word that names the type of keys; 0: none
  resp::Reply elements;             // of the reply's array, since the last keep()
  std::size_t element_count = 0;    // of the reply's array
  std::vector<resp::Piece> pieces;  // of the reply, before `elements`
  std::string bytes;                // of the request, copied by a handler that needs them later
  std::unique_ptr<Own> own;
  // Users::revision() when the client was found to have the rights for all words of the request; 0: it was
  // not.
  std::uint64_t permitted_at = 0;
  std::chrono::nanoseconds duration{0};  // of the parts so far

  // Takes the reply of one part, a whole RESP value. An error in place of an array is the last element of an
  // array that has begun; else it replaces the reply. No part may run behind one that answers such an error.
  void join(std::string_view reply);
  // Whether no part may run behind those that have run.
  [[nodiscard]] bool ends() const { return ends_ || kind_ == Kind::error; }
  // A handler says so where it has not answered all items of its part, as when a full filter refuses one.
  void end() { ends_ = true; }
  // Moves `elements` to `pieces` when they are many: a long reply is never copied as a whole.
  void keep();
  // Appends the next part of one long value to `pieces`: part_bytes_max bytes, but for the last part.
  void append_bytes(std::string_view part);
  // The next element of the array is a bulk of so many bytes, which stay in their source.
  void append_source(std::unique_ptr<const resp::Source> source, std::uint64_t byte_count);
  // The bytes of `pieces` and `elements`, without those that stay in a source.
  [[nodiscard]] std::uint64_t bytes_kept() const { return bytes_in_pieces_ + elements.size(); }
  // The memory that it holds, beside itself. Cheap: it is asked for behind each batch, and there may be a
  // million pieces.
  [[nodiscard]] std::uint64_t byte_count() const;
  // Appends all elements, which `reply` has announced.
  void append_elements(resp::Reply& reply);
  // Appends the reply of the whole request.
  void answer(resp::Reply& reply);

 private:
  // Moves `elements` to `pieces`.
  void cut();

  enum class Kind : std::uint8_t { none, array, sum, error };
  Kind kind_ = Kind::none;
  bool ends_ = false;
  std::int64_t sum_ = 0;
  std::string error_;  // encoded
  std::uint64_t bytes_in_pieces_ = 0;
  std::uint64_t memory_of_pieces_ = 0;  // their capacity
};

}  // namespace sepal::command
