// A toy kind of value: a set of at most 16 short byte strings that can forget. Its bytes go down as well as
// up, so nothing may be read of it while it changes. The tests with it prove that a kind is one row: nothing
// of keyspace and storage names it.
#pragma once

#include <sepal/value/kind_row.hpp>

#include <atomic>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::toy {

inline constexpr auto toy_kind = static_cast<value::Kind>(2);
inline constexpr std::uint8_t learned = 0;  // the numbers of a change: its bytes are the member
inline constexpr std::uint8_t forgotten = 1;
inline constexpr std::size_t members_max = 16;
inline constexpr std::size_t member_bytes_max = 255;

// Members are guarded by the gate: const ones are shared, the others exclusive.
class Toy final : public value::Value {
 public:
  static constexpr value::Kind own_kind = toy_kind;

  Toy() : Value(toy_kind) {}
  [[nodiscard]] const std::set<std::string>& members() const { return members_; }
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  [[nodiscard]] std::uint64_t identity() const { return identity_; }

  // False, with nothing done, if nothing changes or there is no room.
  bool change(std::uint8_t what, std::string_view member);

  std::vector<std::byte> body;  // of an image that is being read

 private:
  std::set<std::string> members_;
  std::uint64_t changes_ = 0;
  const std::uint64_t identity_ = next_identity++;
  static inline std::atomic<std::uint64_t> next_identity{1};
};

extern const value::KindRow toy_row;

}  // namespace sepal::toy
