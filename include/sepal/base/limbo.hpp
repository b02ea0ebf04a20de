// Keeps what a worker took out of a structure until no other worker can still read it.
//
// Readers inside the gate take no lock. So a worker that takes an object out of a table must not free it: a
// reader may have found it before. Readers hold nothing beyond their batch. The object is freed when each
// worker that was inside the gate has left its batch (Gate::Visits).
#pragma once

#include <sepal/base/gate.hpp>

#include <cstddef>
#include <vector>

namespace sepal {

// Confined to a worker. The gate outlives it.
class Limbo {
 public:
  // Null: the caller alone knows the structure, or has closed the gate. Then objects end at once.
  explicit Limbo(const Gate* gate) : gate_(gate) {}
  // Waits for the last readers. The caller is not inside the gate.
  ~Limbo();
  Limbo(const Limbo&) = delete;
  Limbo& operator=(const Limbo&) = delete;

  // Calls end(object) when no reader can be left. No reader finds the object any more.
  void retire(void* object, void (*end)(void*));
  template <class Object>
  void retire(Object* object) {
    retire(object, [](void* retired) { delete static_cast<Object*>(retired); });
  }
  [[nodiscard]] bool empty() const { return young_.empty() && old_.empty(); }
  // Ends what it can. Call it outside the gate behind a batch: until then the worker itself may be a reader.
  void end_some() {
    if (!empty()) end_left();
  }

 private:
  struct Retired {
    void* object;
    void (*end)(void*);
  };
  // A worker that stays inside for long looks again after so many objects.
  static constexpr std::size_t young_max = 256;
  void end_left();
  static void end_all(std::vector<Retired>& retired);

  const Gate* gate_;
  std::vector<Retired> young_;
  std::vector<Retired> old_;  // retired before visits_ were noted
  Gate::Visits visits_;
};

}  // namespace sepal
