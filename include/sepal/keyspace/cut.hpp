// All keys, filters and deadlines of one instant, taken in short steps while the keyspace goes on changing in
// between.
//
//     hashes of a database's keys     0 ......... position ............ end
//                                      taken      | still in the table
//
// Keys are taken in the order of their hashes, which no change of the table changes. What a key that is still
// to come named at the instant is kept before anything else happens to the key, and the key is then left out
// when its turn comes. A flushed table lives on here until it is taken (docs/decisions/0011). Databases that
// are swapped are those of the instant here.
//
// Memory beside the entries: the keys that changed while the cut was under way. So a cut is taken to its end
// at once, and not at the pace of a disk.
#pragma once

#include <sepal/keyspace/keyspace.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace sepal::keyspace {

// Guarded by the gate: members are exclusive. Comes from Keyspace::begin_cut().
class Cut {
 public:
  // With the gate closed, unless the last step has been taken. May free a flushed database.
  ~Cut();
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

  // How many keys there were at the instant.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Appends about `entry_count` more entries. True when these were the last.
  bool step(std::size_t entry_count, std::vector<CutEntry>& to);

 private:
  friend class Keyspace;
  using Tables = std::array<std::shared_ptr<const KeyTable>, database_count>;

  // `running` names this cut as long as it is under way.
  Cut(const Tables& tables, std::uint64_t size, Cut*& running);
  // What the key names in this table is about to change.
  void keep(const KeyTable& table, std::string_view key);
  [[nodiscard]] bool to_come(std::uint32_t database, std::string_view key) const;
  void end();

  Tables tables_;  // as they were at the instant, or what has become of them
  std::uint64_t size_;
  Cut*& running_;
  std::uint32_t database_ = 0;
  std::uint64_t position_ = 0;  // of the first hash to come in that database
  std::array<std::unique_ptr<KeyTable>, database_count> changed_;  // keys to leave out, naming nothing
  std::vector<CutEntry> kept_;
};

}  // namespace sepal::keyspace
