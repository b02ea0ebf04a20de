// A filter that deletes. Its items are hashes in the cells of its layers (plan.hpp): a multiset, so a copy
// that was added can be taken back.
//
// What is promised. An item of which more copies were added than removed is found. A removal of an item that
// was never added finds nothing, but for the filter's rate of error; then it takes the copy of an item with
// the same identity, and no other. Such an item may be denied from then on.
//
// Threads. Members are *shared* or *exclusive*, as those of bloom::Filter. Look-ups lock nothing; an add or a
// removal locks the cells of its item.
//
// Records. Each change of a cell has a number: the next of that cell. A record of a change is 16 bytes, as a
// Fingerprint: the item's hash, and
//
//     bits 0..31  the number's low half    32..39  the layer    40  1: removed
//
// A cell in an image has the number of its last change, so a replay leaves out what the image has. Changes of
// several workers may be in the journal in any order. They commute: a removal that a replay finds before its
// add waits for that.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/cuckoo/native/memory.hpp>
#include <sepal/cuckoo/native/pieces.hpp>
#include <sepal/cuckoo/native/plan.hpp>
#include <sepal/value/add_recorder.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/value/value.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sepal::cuckoo {

class Cell;
class Filter;
class Layer;
class Stills;
struct Changer;
struct ItemPlace;
using FilterPtr = boost::intrusive_ptr<Filter>;

enum class Refusal : std::uint8_t { none, full, no_memory };

class Filter final : public value::Value {
 public:
  static constexpr value::Kind own_kind = value::Kind::cuckoo;

  // Errors: out_of_memory.
  static Result<FilterPtr> create(const Plan& plan);

  ~Filter();

  // --- shared ---------------------------------------------------------------------------------------------

  [[nodiscard]] const Plan& plan() const { return plan_; }
  void contains(std::span<const std::string_view> items, std::span<bool> present) const;
  // The copies of the item, and of others with its identity.
  [[nodiscard]] std::uint64_t count(std::string_view item) const;

  enum class AddIf : std::uint8_t { always, absent };
  struct AddOutcome {
    bool added = false;
    Refusal refusal = Refusal::none;
  };
  // False, with nothing done, if the recorder refuses (value::AddRecorder::begin). `recorder` may be null.
  bool add(std::span<const std::string_view> items, AddIf condition, Memory& memory,
           std::vector<AddOutcome>& outcomes, value::AddRecorder* recorder);
  // Removes a copy of each item. False as add().
  bool remove(std::span<const std::string_view> items, Memory& memory, std::span<bool> removed,
              value::AddRecorder* recorder);

  // Sums over all cells; each cell at some instant.
  [[nodiscard]] std::uint64_t item_count() const;
  [[nodiscard]] std::uint64_t removed_count() const;
  [[nodiscard]] std::uint64_t change_count() const;
  [[nodiscard]] std::uint32_t layer_count() const { return layer_count_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t byte_count() const { return account_.byte_count(); }
  // As Account::bytes_refused.
  [[nodiscard]] std::uint64_t bytes_refused() const { return account_.bytes_refused(); }
  // One that grows has refused an item for lack of room, and no item was removed since. Its cells are not
  // full all at once, so it may take others. Only this process's refusals count.
  [[nodiscard]] bool refused_last() const { return refused_last_.load(std::memory_order_relaxed); }
  // As KindRow::settle.
  std::uint64_t settle() { return account_.settle(); }
  // A number that no other filter of this process has or had.
  [[nodiscard]] std::uint64_t identity() const { return identity_; }

  struct LayerFigures {
    LayerPlan plan{};
    std::uint64_t items = 0;
    std::uint64_t removed = 0;  // as its cells count them; CF.COMPACT has no effect on that
    std::uint64_t cells = 0;
    std::uint64_t slots = 0;       // quotients of all cells
    std::uint64_t slots_used = 0;  // an item takes at most copies_in_slots
    std::uint64_t bytes = 0;       // of their lines
    double rate = 0;               // at which it errs now, at most
  };
  [[nodiscard]] std::vector<LayerFigures> layers() const;
  // At which a filter with these layers errs now, at most: for how many absent items one of them says yes.
  [[nodiscard]] static double rate_of(std::span<const LayerFigures> layers);

  // The cells behind a place, and the place behind them; 0 begins. Nothing: there are no more.
  [[nodiscard]] std::optional<CellsPiece> piece_at(std::uint64_t place) const;

  // A further step of a load into this filter. Nothing of a piece is added if one of its items is there when
  // it is looked up. Of several threads that load one piece, one adds its first item, and the others are
  // refused.
  [[nodiscard]] PieceOutcome load_some(PieceLoad& piece, Memory& memory, value::AddRecorder* recorder);

  // --- exclusive ------------------------------------------------------------------------------------------

  // Repeats records. False: the filter could not have made them. Throws bad_alloc.
  bool repeat(std::span<const Fingerprint> records);
  // CF.COMPACT: the count of removals begins anew. Returns what a replay gives begin_anew(): all removals
  // that cells have counted. A copy that is under way has the counts of later instants, so a replay could not
  // tell.
  std::uint64_t compact();
  void begin_anew(std::uint64_t forgotten);

  // --- its image (kind.cpp) -------------------------------------------------------------------------------

  // What compact() has returned last. It only changes with the gate closed.
  [[nodiscard]] std::uint64_t forgotten() const { return forgotten_.load(std::memory_order_relaxed); }
  // A filter of an image, whose body is still zeros: body_bytes of them. Errors: out_of_memory.
  static Result<FilterPtr> make(const Plan& plan, std::uint64_t forgotten, std::uint64_t body_bytes);
  void fill_body(std::uint64_t offset, std::span<const std::byte> from);
  // Errors: damaged, out_of_memory.
  Result<void> complete();
  [[nodiscard]] std::unique_ptr<value::Still> freeze() const;

 private:
  explicit Filter(const Plan& plan);
  void take_own(std::uint64_t bytes);  // no key names the filter yet

  [[nodiscard]] std::uint64_t hash_of(std::string_view item) const {
    return fingerprint_of(item, plan_.options.seed).low;
  }
  [[nodiscard]] Layer& layer(std::uint32_t index) const {
    return *layers_[index].load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t all_removed() const;
  struct Sought;
  [[nodiscard]] bool contains_locked(const ItemPlace& at, const Cell& home) const;
  // Calls step(item) for each item.
  template <class Step>
  void change_each(std::span<const std::string_view> items, Step step);
  AddOutcome add(const Sought& item, AddIf condition, Memory& memory, Fingerprint& record);
  [[nodiscard]] bool claim_room();
  bool remove(const Sought& item, Memory& memory, Fingerprint& record);
  // Errors: damaged, out_of_memory. `bytes` becomes larger by what the layer takes beside the body.
  Result<std::unique_ptr<Layer>> load_layer(std::uint32_t index, std::span<std::byte>& left,
                                            std::uint64_t& bytes);
  // Null: no memory.
  Layer* layer_made(std::uint32_t index, Memory& memory);
  // The same for all layers up to this one.
  Layer* layers_made(std::uint32_t index, Memory& memory);
  PieceOutcome look_up_some(PieceLoad::State& load) const;
  PieceOutcome add_next_of(PieceLoad::State& load, const Changer& by, Fingerprint& record);
  enum class Repeated : std::uint8_t { done, not_yet, impossible, no_memory };
  Repeated repeat(const Fingerprint& record);
  Repeated repeat_in(Cell*& cell, const Fingerprint& record, const ItemPlace& at, const Changer& by);
  bool meets_removal(const Fingerprint& record, std::uint32_t index, const ItemPlace& at);

  const Plan plan_;
  const std::uint64_t identity_;
  Account account_;
  std::atomic<std::uint64_t> taken_{0};      // items of a filter that does not scale
  std::atomic<std::uint64_t> compacted_{0};  // how often
  std::atomic<std::uint64_t> forgotten_{0};  // removals that are no longer told
  std::atomic<std::uint32_t> layer_count_{0};
  std::atomic<bool> refused_last_{false};
  std::array<std::atomic<Layer*>, layer_count_max> layers_{};
  std::shared_ptr<Stills> stills_;
  // Records of which the replay has not seen what they need.
  std::vector<Fingerprint> waiting_adds_;      // room
  std::vector<Fingerprint> waiting_removals_;  // their adds
  struct Body;                                 // an image that is not complete yet
  std::unique_ptr<Body> body_;
};

}  // namespace sepal::cuckoo
