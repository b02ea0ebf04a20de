// A worker's own side of the gate, for a scope.
#pragma once

#include <sepal/base/gate.hpp>

#include <cstddef>

namespace sepal::server {

class SEPAL_SCOPED_CAPABILITY GateEntered {
 public:
  GateEntered(Gate& gate, std::size_t side) SEPAL_ACQUIRE_SHARED(gate) : gate_(gate), side_(side) {
    gate_.enter(side_);
  }
  ~GateEntered() SEPAL_RELEASE() { gate_.leave(side_); }
  GateEntered(const GateEntered&) = delete;
  GateEntered& operator=(const GateEntered&) = delete;

 private:
  Gate& gate_;
  std::size_t side_;
};

}  // namespace sepal::server
