/** Agent loops, chosen per row by `agent_name`. `registerAgentLoop` adds one's own. */
import { taskAgent } from '../tasks/loop.js';
import { interactionAgent } from './interaction-agent.js';
import { mathExpression } from './math-expression.js';
import { reactAgent } from './react-agent.js';
import { registerAgentLoop } from './registry.js';
import { searchAgent } from './search-agent.js';
import { singleTurnAgent } from './single-turn.js';
import { toolAgent } from './tool-agent.js';

registerAgentLoop('single_turn_agent', singleTurnAgent);
registerAgentLoop('tool_agent', toolAgent);
registerAgentLoop('react_agent', reactAgent);
registerAgentLoop('search_agent', searchAgent);
registerAgentLoop('interaction_agent', interactionAgent);
registerAgentLoop('task_agent', taskAgent);
registerAgentLoop('math_expression', mathExpression);

export { calculateTool } from './math-expression.js';
export { type AgentLoop, agentLoop, agentLoopNames, registerAgentLoop } from './registry.js';
export { toolMessages } from './tool-agent.js';
