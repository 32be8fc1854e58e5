// Package service is what the server does: topics, sending, deciding,
// stopping. Each operation is one transaction of the store, announced after
// its commit.
package service

import (
	"context"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// Store is what the service needs of the database. Each method is one
// transaction. Where a method gives a Change, its caller announces it; a
// Change with Revision 0 changed nothing. Errors that a client can act on are
// kinds of chat; a database that does not answer is chat.ErrUnavailable.
type Store interface {
	Ping(ctx context.Context) error

	CreateTopic(ctx context.Context, t chat.NewTopic) (chat.Topic, chat.Change, error)
	Topic(ctx context.Context, topicID string) (chat.Topic, error)
	// Topics lists topics, the last changed first, each with its status.
	Topics(ctx context.Context, p chat.Page) (topics []chat.Topic, next string, err error)
	UpdateTopic(ctx context.Context, topicID string, p chat.TopicPatch) (chat.Topic, chat.Change, error)
	// DeleteTopic cancels the topic's turns, closes its approvals and removes
	// what it holds; a tombstone stays.
	DeleteTopic(ctx context.Context, topicID string) (chat.Epochs, chat.Change, error)

	// Snapshot reads one consistent state of the topic: the newest limit
	// messages of the active branch, or those before the message before.
	Snapshot(ctx context.Context, topicID string, limit int, before string) (chat.Snapshot, error)
	// Tree reads all messages of all branches, parents before children.
	Tree(ctx context.Context, topicID string) (messages []chat.Message, revision int64, err error)
	Status(ctx context.Context, topicID string) (chat.Status, error)

	// Send stores a user's message after the active leaf and queues the turn
	// that answers it, or queues the message if the active branch is busy.
	Send(ctx context.Context, topicID string, m chat.NewMessage) (chat.Sent, chat.Change, error)
	// EditMessage changes a queued message in place; of a message that was
	// sent it makes a sibling with a turn of its own, and selects it.
	EditMessage(ctx context.Context, topicID, messageID string, m chat.NewMessage) (chat.Sent, chat.Change, error)
	// DeleteMessage removes the message and all below it, cancels their turns
	// and closes their approvals.
	DeleteMessage(ctx context.Context, topicID, messageID string) (chat.Epochs, chat.Change, error)
	// SendQueued sends a queued message now; the topic must not be busy.
	SendQueued(ctx context.Context, topicID, messageID string) (chat.Sent, chat.Change, error)
	// Regenerate answers the user message above the given assistant message
	// again, as a sibling, and selects it.
	Regenerate(ctx context.Context, topicID, messageID string) (chat.Sent, chat.Change, error)
	// Retry queues a turn that ended in error or was stopped again. It goes on
	// from its last committed step.
	Retry(ctx context.Context, topicID, messageID string) (chat.Sent, chat.Change, error)
	// Select makes the branch through the message the active one, down to its
	// newest leaf.
	Select(ctx context.Context, topicID, messageID string) (chat.Topic, chat.Change, error)
	// Stop ends the open turns of the topic's active branch, and running turns
	// of any other branch, and settles their calls.
	Stop(ctx context.Context, topicID string) (chat.Epochs, chat.Change, error)

	// Decide applies all decisions or none (a *chat.BatchError names those that
	// stand in the way): lock the topic, read the committed
	// parts, apply chat.Decide, write with the audit, and if nothing is pending
	// any more move the turn from awaiting-approval to queued. What a decision
	// asks to remember is written to the tool's server in the same transaction;
	// a tool whose server is not stored is ErrInvalid.
	Decide(ctx context.Context, topicID string, ds []chat.Decision, by chat.Decider) (chat.Decided, chat.Change, error)
	// EditPending applies edit, which must be pure, to the calls of those of the
	// approvals that still wait, with the time of the transaction; its false
	// leaves a call as it is. If that leaves nothing pending, the turn goes on.
	// An approval whose place another took is closed as superseded.
	EditPending(ctx context.Context, topicID string, approvalIDs []string, edit chat.CallEdit) (chat.Change, error)
	// SettlePending is EditPending for an edit that depends on the policy, with
	// the switches of the server, as they are in the same transaction.
	SettlePending(ctx context.Context, topicID string, approvalIDs []string, serverID string, edit chat.PolicyEdit) (chat.Change, error)
	// Expired lists up to n approvals that wait although their time is over.
	Expired(ctx context.Context, n int) ([]chat.ApprovalRef, error)
	// PendingCalls lists the calls that wait, of all topics.
	PendingCalls(ctx context.Context, p chat.Page) (calls []chat.JudgedCall, next string, err error)
	// AnswerQuestion applies chat.AnswerQuestion to the call of the message that
	// asked the question.
	AnswerQuestion(ctx context.Context, topicID, messageID, questionID string, a chat.Answer, by chat.Decider) (chat.Answered, chat.Change, error)
	// Question reads a question of a message's calls, open or not.
	Question(ctx context.Context, topicID, messageID, questionID string) (chat.Question, error)
	// Questions lists the open questions of all topics, the oldest first.
	Questions(ctx context.Context, p chat.Page) (questions []chat.QuestionItem, next string, err error)
	// Call reads the call of an approval. An approval that is unknown, or of
	// another topic, is ErrNotFound; one of a deleted message is ErrGone.
	Call(ctx context.Context, topicID, approvalID string) (chat.ToolCall, error)
	Approvals(ctx context.Context, f chat.ApprovalFilter, p chat.Page) (approvals []chat.ApprovalItem, next string, err error)
	// Audit lists decisions, the newest first; topicID may be "".
	Audit(ctx context.Context, topicID string, p chat.Page) (entries []chat.AuditEntry, next string, err error)

	// Rules lists the rules of the policy, in their order.
	Rules(ctx context.Context) ([]chat.Rule, error)
	Rule(ctx context.Context, id string) (chat.Rule, error)
	// CreateRule, UpdateRule and DeleteRule record who changed what.
	CreateRule(ctx context.Context, n chat.NewRule, by chat.Decider) (chat.Rule, error)
	UpdateRule(ctx context.Context, id string, p chat.RulePatch, by chat.Decider) (chat.Rule, error)
	DeleteRule(ctx context.Context, id string, by chat.Decider) error
	// RuleVersions lists what was done to a rule, the newest first, also to
	// one that was deleted.
	RuleVersions(ctx context.Context, id string, p chat.Page) (changes []chat.RuleChange, next string, err error)
	// JudgedCalls reads the newest n calls on which a verdict was given.
	JudgedCalls(ctx context.Context, n int) ([]chat.JudgedCall, error)
	ApprovalCall(ctx context.Context, approvalID string) (chat.JudgedCall, error)
	// TopicCall reads a call of a topic; of several with the id the newest.
	TopicCall(ctx context.Context, topicID, toolCallID string) (chat.JudgedCall, error)

	// MCPServers lists what is stored of tool servers, in the order in which
	// they were added, the built-in one first; of servers in a file that is
	// their switches alone.
	MCPServers(ctx context.Context) ([]chat.MCPServer, error)
	MCPServer(ctx context.Context, id string) (chat.MCPServer, error)
	// CreateMCPServers stores all servers, with new ids, or none. Two servers of
	// one name are ErrConflict.
	CreateMCPServers(ctx context.Context, servers []chat.MCPServer, by chat.Decider) ([]chat.MCPServer, error)
	// UpdateMCPServer applies edit, which must be pure, to the server as it is
	// stored, and records who changed what. An edit that changes nothing is no
	// change, and no version is spent on it.
	UpdateMCPServer(ctx context.Context, id string, edit func(chat.MCPServer) (chat.MCPServer, error), by chat.Decider) (chat.MCPServer, error)
	DeleteMCPServer(ctx context.Context, id string, by chat.Decider) error
	// AdoptMCPServers sees to it that switches are stored for the servers that
	// are configured in a file, and for no others of a file. A name that another
	// stored server has is ErrConflict.
	AdoptMCPServers(ctx context.Context, servers []chat.MCPServer) error
	// MCPServerVersions lists what was done to a server, the newest first, also
	// to one that was deleted.
	MCPServerVersions(ctx context.Context, id string, p chat.Page) (changes []chat.ServerChange, next string, err error)

	Assistants(ctx context.Context) ([]chat.Assistant, error)
	// Assistant reads an assistant; one that was deleted is ErrGone.
	Assistant(ctx context.Context, id string) (chat.Assistant, error)
	CreateAssistant(ctx context.Context, n chat.NewAssistant) (chat.Assistant, error)
	UpdateAssistant(ctx context.Context, id string, p chat.AssistantPatch) (chat.Assistant, error)
	// DeleteAssistant takes an assistant off the list. Its mode goes on to hold
	// for the topics that started from it.
	DeleteAssistant(ctx context.Context, id string) error

	// PutToken stores a token's digest for the given life, by the database's
	// clock; 0 is for ever. Storing the same digest again is harmless.
	PutToken(ctx context.Context, t chat.Token, life time.Duration) error
	// FindToken finds a token of the kind that has not expired, else
	// ErrNotFound.
	FindToken(ctx context.Context, digest string, kind chat.TokenKind) (chat.Token, error)
	// TakeToken finds a token and removes it in one transaction: of several
	// takers one gets it.
	TakeToken(ctx context.Context, digest string, kind chat.TokenKind) (chat.Token, error)
	// DeleteToken removes a token; one that is not there is no error.
	DeleteToken(ctx context.Context, digest string) error
}
