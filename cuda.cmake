# The CUDA halves, the .cu files of every folder, built by nvcc. tests/cuda_host builds the same
# files with g++ for its stand-in of a GPU, which needs no more than CUDA's headers.
find_path(CUDA_INCLUDE cuda_runtime.h PATHS $ENV{CUDA_HOME}/include /usr/local/cuda/include)
find_program(NVCC nvcc PATHS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(BELLOWS_CUDA STREQUAL AUTO)
  set(with_cuda ${NVCC})
else()
  set(with_cuda ${BELLOWS_CUDA})
endif()
if(BELLOWS_SANITIZE OR NOT with_cuda)
  return()
endif()

set(CMAKE_CUDA_COMPILER ${NVCC})
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)  # asks nvcc where its toolkit is: it may be a script that calls another
find_package(CUDAToolkit REQUIRED)

# cuDNN's graphs. Its frontend's headers (PyPI's nvidia-cudnn-frontend, see tools/setup.sh) are seen
# by one file only, a target of its own, which the host's compiler builds.
file(GLOB site_packages ${PROJECT_SOURCE_DIR}/.deps/lib/python3*/site-packages/include)
find_path(CUDNN_FRONTEND cudnn_frontend.h PATHS ${site_packages})
find_path(CUDNN_INCLUDE cudnn.h PATHS ${CUDAToolkit_INCLUDE_DIRS})
if(CUDNN_FRONTEND AND CUDNN_INCLUDE)
  list(FILTER kernels EXCLUDE REGEX "ops/vendor/cudnn.cu$")
  add_library(bellows_cudnn OBJECT ops/vendor/cudnn.cu)
  set_source_files_properties(ops/vendor/cudnn.cu PROPERTIES LANGUAGE CXX)
  target_compile_definitions(bellows_cudnn PRIVATE NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING)
  target_include_directories(bellows_cudnn PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(bellows_cudnn SYSTEM PRIVATE ${CUDNN_FRONTEND} ${CUDNN_INCLUDE})
  list(APPEND BELLOWS_LIBRARIES bellows_cudnn)
else()
  message(STATUS "No cuDNN frontend: convolutions on a GPU run on our own kernels")
  list(FILTER kernels EXCLUDE REGEX "ops/vendor/cudnn")
endif()
# The vendors' libraries are opened when they are needed, from here if the system has none.
set(CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR})

# The text of the headers that kernels compiled at run time include (ops/vendor/nvrtc.cu).
set(RUNTIME_HEADERS core/base/half.h ops/base/maths.h ops/base/functors.h ops/chain/pointwise_device.cuh)
foreach(header ${RUNTIME_HEADERS})
  file(READ ${PROJECT_SOURCE_DIR}/${header} text)
  string(APPEND runtime_headers "{\"${header}\", R\"text(${text})text\"},\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
endforeach()
file(CONFIGURE OUTPUT runtime_headers.inc CONTENT "${runtime_headers}" @ONLY)
# As in those kernels: a chain in one of them has the bits of its ops one by one.
set_source_files_properties(ops/elementwise.cu ops/chain/pointwise.cu PROPERTIES COMPILE_OPTIONS
                            --fmad=false)

set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
add_library(bellows_cuda OBJECT ${kernels})
# -std by hand: CMake 3.25 drops CMAKE_CUDA_STANDARD 20 for this nvcc without a word.
target_compile_options(bellows_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr -Werror=all-warnings
  -Xcompiler=-Wall,-Wextra,-Werror>)
target_include_directories(bellows_cuda PUBLIC ${PROJECT_SOURCE_DIR}
                           PRIVATE ${PROJECT_BINARY_DIR})
set(architectures ${CMAKE_CUDA_ARCHITECTURES})
if(architectures MATCHES "^(all|all-major|native)$")  # which CMake has as numbers, too
  string(MAKE_C_IDENTIFIER ${architectures} word)
  string(TOUPPER ${word} word)
  set(architectures ${CMAKE_CUDA_ARCHITECTURES_${word}})
endif()
string(REPLACE ";" " " architectures "${architectures}")
set_source_files_properties(core/device/device_info.cu PROPERTIES COMPILE_DEFINITIONS
  "BELLOWS_CUDA_ARCHITECTURES=\"${architectures}\"")
# The runtime is linked into the program, so it starts where there is no CUDA.
target_link_libraries(bellows_cuda PUBLIC CUDA::cudart_static)
list(APPEND BELLOWS_LIBRARIES bellows_cuda)
