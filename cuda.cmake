# Builds the .cu files of every folder with nvcc. tests/cuda_host builds the same files with g++ for
# its GPU stand-in, which needs only CUDA's headers.
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
enable_language(CUDA)  # asks nvcc for its toolkit: nvcc may be a wrapper script
find_package(CUDAToolkit REQUIRED)

# cuDNN graph API. Only one file includes the frontend's headers (nvidia-cudnn-frontend on PyPI, see
# tools/setup.sh). It is a separate target, built with the host compiler.
file(GLOB site_packages ${PROJECT_SOURCE_DIR}/.deps/lib/python3*/site-packages/include)
find_path(CUDNN_FRONTEND cudnn_frontend.h PATHS ${site_packages})
find_path(CUDNN_INCLUDE cudnn.h PATHS ${CUDAToolkit_INCLUDE_DIRS})
if(CUDNN_FRONTEND AND CUDNN_INCLUDE)
  list(FILTER kernels EXCLUDE REGEX "ops/vendor/cudnn.cu$")
  add_library(bellows_cudnn OBJECT ops/vendor/cudnn.cu)
  set_source_files_properties(ops/vendor/cudnn.cu PROPERTIES LANGUAGE CXX)
  target_compile_options(bellows_cudnn PRIVATE -O1)  # the frontend's headers: two minutes with -O3
  target_compile_definitions(bellows_cudnn PRIVATE NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING)
  target_include_directories(bellows_cudnn PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(bellows_cudnn SYSTEM PRIVATE ${CUDNN_FRONTEND} ${CUDNN_INCLUDE})
  list(APPEND BELLOWS_LIBRARIES bellows_cudnn)
else()
  message(STATUS "No cuDNN frontend: convolutions on a GPU run on our own kernels")
  list(FILTER kernels EXCLUDE REGEX "ops/vendor/cudnn")
endif()
find_path(NCCL_INCLUDE nccl.h PATHS ${CUDAToolkit_INCLUDE_DIRS})
if(NOT NCCL_INCLUDE)
  message(STATUS "No nccl.h: ranks on GPUs talk through gloo")
  list(FILTER kernels EXCLUDE REGEX "dist/groups/(communicator|nccl_library).cu$")
endif()
set(cupti ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI)
find_path(CUPTI_INCLUDE cupti.h PATHS ${CUDAToolkit_INCLUDE_DIRS} ${cupti}/include)
if(NOT CUPTI_INCLUDE)
  message(STATUS "No cupti.h: `trainer profile` has no times of a GPU")
  list(FILTER kernels EXCLUDE REGEX "labs/profile/(activity|cupti_library).cu$")
endif()
# Vendor libraries are opened on first use, from the toolkit's folder if the system has none.
set(CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR} ${cupti}/lib64)

# Text of the headers that kernels compiled at run time include (ops/vendor/nvrtc.cu).
set(RUNTIME_HEADERS core/base/half.h ops/base/maths.h ops/base/functors.h ops/chain/pointwise_device.cuh)
foreach(header ${RUNTIME_HEADERS})
  file(READ ${PROJECT_SOURCE_DIR}/${header} text)
  string(APPEND runtime_headers "{\"${header}\", R\"text(${text})text\"},\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
endforeach()
file(CONFIGURE OUTPUT runtime_headers.inc CONTENT "${runtime_headers}" @ONLY)
# Same as in kernels compiled at run time: a fused chain gives the same bits as its separate ops.
set_source_files_properties(ops/elementwise.cu ops/chain/pointwise.cu PROPERTIES COMPILE_OPTIONS
                            --fmad=false)

set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
add_library(bellows_cuda OBJECT ${kernels})
# -std is set manually: CMake 3.25 silently ignores CMAKE_CUDA_STANDARD 20 for this nvcc.
target_compile_options(bellows_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr -Werror=all-warnings
  -Xcompiler=-Wall,-Wextra,-Werror>)
foreach(library NCCL CUPTI)
  if(${library}_INCLUDE)
    target_include_directories(bellows_cuda SYSTEM PRIVATE ${${library}_INCLUDE})
  endif()
endforeach()
target_include_directories(bellows_cuda PUBLIC ${PROJECT_SOURCE_DIR}
                           PRIVATE ${PROJECT_BINARY_DIR})
set(architectures ${CMAKE_CUDA_ARCHITECTURES})
if(architectures MATCHES "^(all|all-major|native)$")  # CMake has variables with the numbers
  string(MAKE_C_IDENTIFIER ${architectures} word)
  string(TOUPPER ${word} word)
  set(architectures ${CMAKE_CUDA_ARCHITECTURES_${word}})
endif()
string(REPLACE ";" " " architectures "${architectures}")
set_source_files_properties(core/device/device_info.cu PROPERTIES COMPILE_DEFINITIONS
  "BELLOWS_CUDA_ARCHITECTURES=\"${architectures}\"")
# The CUDA runtime is linked statically, so programs start on machines without CUDA.
target_link_libraries(bellows_cuda PUBLIC CUDA::cudart_static)
list(APPEND BELLOWS_LIBRARIES bellows_cuda)
