// What changes the keyspace, told as it happens to whoever keeps a record of it (the journal).
//
// Each worker has a log of its own, so that what it adds inside its side of the gate meets nobody. Told in
// this order and applied in this order, the changes lead from the keyspace at the one moment to that at the
// other: adds of different workers commute, and everything else happens with the gate closed, when all logs
// are settled (committed).
//
// An add is recorded after its bits are set, because only then it is known to be new. So there is an instant
// in which another worker sees the item and its record is nowhere. A worker that answers "known already" to
// an add must therefore not send that answer before the recording of others that was under way has ended;
// begin_add() and added() are the two ends of it.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/layer_plan.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::keyspace {

struct DatabaseKey {
  std::uint32_t database = 0;
  std::string_view key;
};

// Confined to a worker, inside the gate. None of its members blocks.
class MutationLog {
 public:
  virtual ~MutationLog() = default;

  // Whether anybody keeps a record. When not, nothing below is called.
  [[nodiscard]] virtual bool recording() const = 0;

  // --- shared ---------------------------------------------------------------------------------------------

  // Bits of items that may be new are about to be set.
  virtual void begin_add() = 0;
  // Ends what begin_add() began. Each of these was new to the filter and is now counted by its newest layer;
  // there may be none.
  virtual void added(DatabaseKey key, std::span<const Fingerprint> fingerprints) = 0;

  // --- exclusive ------------------------------------------------------------------------------------------

  virtual void created(DatabaseKey key, const filter::FilterOptions& options,
                       const filter::LayerPlan& first_layer) = 0;
  // The filter has a new newest layer.
  virtual void grown(DatabaseKey key, const filter::LayerPlan& layer) = 0;
  virtual void removed(DatabaseKey key) = 0;
  // What was under `to` is gone.
  virtual void renamed(std::uint32_t database, std::string_view from, std::string_view to) = 0;
  virtual void flushed(std::uint32_t database) = 0;
  virtual void flushed_all() = 0;
};

}  // namespace sepal::keyspace
