#include "hook/installation.h"
#include "hit.h"

namespace dynamo_lite {

bool is_installed() noexcept { return current_evaluator(installation().interpreter) == evaluate; }

void install() noexcept {
  Installation& our = installation();
  const Evaluator current = current_evaluator(our.interpreter);
  if (current == evaluate) return;
  const bool is_foreign = current != evaluate_default_address();
  // A hook that replaced ours passes frames to us. One that was there before ours doesn't: when it left, it took ours
  // out.
  if (is_foreign && our.chained && current != our.previous) return;
  our.previous = is_foreign ? current : nullptr;
  our.chained = true;
  set_evaluator(our.interpreter, evaluate);
}

void remove() noexcept {
  Installation& our = installation();
  const Evaluator current = current_evaluator(our.interpreter);
  if (current == evaluate) {
    set_evaluator(our.interpreter, our.previous == nullptr ? evaluate_default_address() : our.previous);
    our.chained = false;
  } else if (current == evaluate_default_address()) {
    our.chained = false;
  }
}

HookOut::HookOut(bool wanted) noexcept : out_(wanted && installation().previous == nullptr && is_installed()) {
  if (out_) set_evaluator(installation().interpreter, evaluate_default_address());
}

DL_HIT HookOut::~HookOut() {
  if (!out_) return;
  Installation& our = installation();
  const Evaluator current = current_evaluator(our.interpreter);
  if (current == evaluate) return;  // somebody needed it meanwhile
  const bool is_as_left = current == evaluate_default_address();
  if (is_as_left && our.users > 0) {
    set_evaluator(our.interpreter, evaluate);
  } else {
    our.chained = false;  // a hook that was installed meanwhile doesn't know of ours
  }
}

bool is_unwatched() noexcept {
  const Evaluator current = current_evaluator(installation().interpreter);
  return current == evaluate_default_address() || (current == evaluate && installation().previous == nullptr);
}

}  // namespace dynamo_lite
