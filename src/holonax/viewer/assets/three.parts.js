// The parts of three.js that the viewer uses; README.md says how three.min.js is made of them.
export {
  BoxGeometry, BufferAttribute, BufferGeometry, CylinderGeometry, DataTexture, DirectionalLight, DoubleSide, FloatType, GLSL3,
  HemisphereLight, InstancedMesh, Matrix4, Mesh, MeshStandardMaterial, NearestFilter, PerspectiveCamera, Points, Quaternion,
  RGBAFormat, RGBAIntegerFormat, Scene, ShaderMaterial, SphereGeometry, UnsignedShortType, Vector2, Vector3, Vector4, WebGLRenderer,
} from "three/src/Three.js";
