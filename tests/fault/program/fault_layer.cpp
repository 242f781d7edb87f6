// The layer "fault" returns its input. It reports "forward" (in training), "evaluation" and "exit"
// to the shim, if that is preloaded. A rank exits while its connections are still open.
#include <dlfcn.h>
#include "models/module/module.h"

namespace bellows {

static void report(const char* point) {
  static const auto fault_point =
      reinterpret_cast<void (*)(const char*)>(dlsym(RTLD_DEFAULT, "fault_point"));
  if (fault_point) fault_point(point);
}

namespace {
class FaultLayer : public Module {
 public:
  ~FaultLayer() override { report("exit"); }
  const char* kind() const override { return "fault"; }

 protected:
  Tensor forward(const Tensor& x) override {
    report(training() ? "forward" : "evaluation");
    return x;
  }
};
}  // namespace

static ModulePtr make(const NoOptions&, LayerContext&) { return std::make_unique<FaultLayer>(); }
static const AddEntry<MakeLayer> entry("fault", "reports points of a run to a test", make);

}  // namespace bellows
